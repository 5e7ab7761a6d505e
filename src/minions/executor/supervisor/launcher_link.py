"""The link to a launcher: started when the first job needs it, and told apart from one that died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from minions.domain.errors import Unavailable
from minions.executor.supervisor.messages import Message, Ready, pack, unpack
from minions.executor.supervisor.processes import LAUNCHER_TOKEN
from minions.executor.supervisor.record import Identity

_MODULE = "minions.executor.supervisor.launcher"
_ROOT = str(Path(__file__).parents[3])  # a directory, or the one file in which all of it travels
_RUN = "import sys, importlib; sys.path.insert(0, sys.argv[1]); importlib.import_module(sys.argv[2]).main()"
_LINE_LIMIT_BYTES = 1 << 22
_READY_SECONDS = 30.0
_END_SECONDS = 5.0
_LOG = "launcher.log"


class LauncherLost(Unavailable):
    """The process that starts jobs was ended by somebody else."""

    code = "launcher_lost"
    hint = "Its jobs were stopped; the next one starts another launcher."


class LauncherLink:
    """A running launcher, seen from the executor."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        identity: Identity,
    ) -> None:
        self.identity = identity
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, directory: Path) -> LauncherLink:
        """Start one in a session of its own, so that it outlives us. Raises LauncherLost when it does not get ready."""
        ours, theirs = socket.socketpair()
        with theirs, (directory / _LOG).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-IXutf8",
                "-c",
                _RUN,
                _ROOT,
                _MODULE,
                str(theirs.fileno()),
                os.fspath(directory),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, LAUNCHER_TOKEN: secrets.token_hex(16)},
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_LIMIT_BYTES)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_SECONDS):
                line = await reader.readline()
                if line and isinstance(ready := unpack(line), Ready):
                    return cls(process, reader, writer, Identity(ready.pid, ready.start))
        writer.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise LauncherLost(f"the launcher of jobs did not get ready; see {directory / _LOG}")

    async def say(self, message: Message) -> None:
        """Send a message; what is lost because the launcher has just died, the reader finds out."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(pack(message))
            await self._writer.drain()

    async def messages(self) -> AsyncIterator[Message]:
        """What it says, until it ends."""
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                yield unpack(line)

    async def how_it_ended(self) -> str:
        """In words, once `messages` has ended."""
        await self._hang_up()
        code = await self._process.wait()
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

    async def _hang_up(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def kill(self) -> None:
        """End a launcher that does not answer; `messages` ends with it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> bool:
        """Let it go. False when it stays, because processes are left of which it is the parent."""
        await self._hang_up()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            return False
        return True
