"""One connection to a host: one ssh process, an agent at its far end, and requests that do not wait for each other."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import struct
import sys
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from minions.domain.errors import MinionsError
from minions.hosts import ssh
from minions.hosts.agent_source import agent_source
from minions.hosts.faults import HostNotReady, HostUnreachable, RequestFailed
from minions.hosts.inventory import Host

_CONNECT_SECONDS = 3 * ssh.LOGIN_SECONDS  # a jump host, a slow key, a Python that has to be looked for
_CLOSE_SECONDS = 5.0
_END_SECONDS = 2.0  # what ssh takes to say why, once its output has ended
_MOST_NOISE_BYTES = 1 << 16
_STDERR_LINES = 40
_SLOW = "see that it is awake, and what its login files wait for"
_LENGTHS = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the agent says of itself first. python: its version. executable: the interpreter, for what is started."""

    python: tuple[int, ...]
    executable: str
    system: str
    machine: str
    home: str


@dataclass(frozen=True, slots=True)
class Run:
    """How a program on the host ended. late: its time was over. skipped: what it makes was there. stderr: its tail."""

    code: int
    stdout: bytes
    stderr: str
    late: bool
    skipped: bool
    truncated: bool


class Connection:
    """Requests to one host. After it was lost every call raises the fault that `lost` tells, too."""

    def __init__(self, host: Host, process: asyncio.subprocess.Process) -> None:
        self.host = host
        self.tunnel_port: int | None = None
        self._process = process
        self._greeting: Greeting | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._writing = asyncio.Lock()
        self._tunnel: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._silent = False
        self._fault: MinionsError | None = None
        self._ended = asyncio.Event()
        self._stderr_read = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        host: Host,
        *,
        tunnel_port: int | None = None,
        options: Sequence[str] = (),
    ) -> AsyncGenerator[Connection]:
        """Connect, and end the connection at the end of the block.

        tunnel_port: the port of 127.0.0.1 here that the host shall reach as `tunnel_port` of the connection.
        Raises HostUnreachable (another try may work), HostRefuses and HostNotReady (a person has to act).
        """
        process = await asyncio.create_subprocess_exec(
            *ssh.argv(host, tunnel_port, options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for us, who then end it in order
        )
        connection = cls(host, process)
        tasks = [asyncio.create_task(connection._read_stderr())]
        try:
            await connection._meet(tunnel_port)
            tasks += [asyncio.create_task(connection._read_replies()), asyncio.create_task(connection._keep_alive())]
            yield connection
        finally:
            await connection._close(tasks)

    @property
    def greeting(self) -> Greeting:
        assert self._greeting is not None, "a connection is handed out after the greeting"
        return self._greeting

    @property
    def pid(self) -> int:
        """Of ssh."""
        return self._process.pid

    async def lost(self) -> MinionsError:
        """Wait until the connection is lost; the reason."""
        await self._ended.wait()
        assert self._fault is not None
        return self._fault

    async def request(self, verb: str, fields: Mapping[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Ask the agent for one thing. Raises RequestFailed for its refusal, and the fault of a lost connection."""
        if self._fault is not None:
            raise _anew(self._fault)
        number = next(self._numbers)
        answer: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send({**fields, "verb": verb, "id": number}, body)
            reply, content = await answer
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # asked for, also where the sending failed before the waiting
        if error := reply.get("error"):
            raise RequestFailed(self.host.name, error["kind"], error["message"])
        return reply, content

    async def run(
        self,
        argv: Sequence[str],
        *,
        directory: str = "~",
        environment: Mapping[str, str | None] | None = None,
        path: Sequence[str] = (),
        body: bytes = b"",
        timeout_seconds: float | None = None,
        log: str | None = None,
        lock: str | None = None,
        unless: str | None = None,
    ) -> Run:
        """Run a program on the host to its end; it is ended when the connection is lost.

        environment: added to the agent's own; None removes. path: directories before the PATH. body: its stdin. log: a
        file on the host for both streams. lock: a file that is locked meanwhile. unless: nothing is run if this exists.
        """
        fields = {
            "argv": list(argv),
            "directory": directory,
            "environment": {**dict(self.host.environment), **(environment or {})},
            "path": [*path, *self.host.path],
            "timeout_seconds": timeout_seconds,
            "log": log,
            "lock": lock,
            "unless": unless,
        }
        reply, content = await self.request("run", fields, body)
        return Run(
            code=reply["code"],
            stdout=content,
            stderr=reply["stderr"],
            late=reply["late"],
            skipped=reply["skipped"],
            truncated=reply["truncated"],
        )

    async def _meet(self, tunnel_port: int | None) -> None:
        assert self._process.stdin is not None
        source = agent_source()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                with contextlib.suppress(ConnectionError):  # it ended already; the greeting that is missing says why
                    hint = (self.host.python or (sys.executable if self.host.is_local else "")).encode()
                    self._process.stdin.write(b"%b\n%d\n%b" % (hint, len(source), source))
                    await self._process.stdin.drain()
                self._greeting = await self._read_greeting()
                if self._greeting is None:
                    raise await self._last_words()
                if tunnel_port is not None:
                    self.tunnel_port = tunnel_port if self.host.is_local else await self._tunnel
        except TimeoutError:
            what = "does not say which port its tunnel has" if self._greeting else "does not answer"
            raise HostUnreachable(f"{self.host.name}: {what} within {_CONNECT_SECONDS} seconds", mend=_SLOW) from None

    async def _read_greeting(self) -> Greeting | None:
        """The agent's line, after whatever the files of the login shell print. None when there is none."""
        assert self._process.stdout is not None
        noise = 0
        with contextlib.suppress(asyncio.LimitOverrunError, ValueError):
            while noise < _MOST_NOISE_BYTES and (line := await self._process.stdout.readline()):
                noise += len(line)
                if line.startswith(b'{"minions_agent"'):
                    said = json.loads(line)
                    return Greeting(
                        tuple(said["python"]), said["executable"], said["system"], said["machine"], said["home"]
                    )
        if self._process.stdout.at_eof():
            return None
        raise HostNotReady(
            f"{self.host.name}: its login shell prints without end",
            hint=f"Let the shell's files on {self.host.name} print nothing when it is not interactive.",
        )

    async def _last_words(self) -> MinionsError:
        """Why it ended. Its stderr is read to the end first."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                code = await self._process.wait()
        except TimeoutError:
            self._end_process()
            code = await self._process.wait()
        with contextlib.suppress(TimeoutError):  # something that ssh started may hold its stderr open
            async with asyncio.timeout(_END_SECONDS):
                await self._stderr_read.wait()
        return ssh.fault(self.host, None if self._silent else code, "\n".join(self._stderr))

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        line = b"\n"
        while line:
            try:
                line = await self._process.stderr.readline()
            except ValueError:  # a line without end
                continue
            text = line.decode(errors="replace").strip()
            self._stderr.append(text)
            if (port := ssh.allocated_port(text)) is not None and not self._tunnel.done():
                self._tunnel.set_result(port)
        self._stderr_read.set()

    async def _read_replies(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                header_bytes, body_bytes = _LENGTHS.unpack(await self._process.stdout.readexactly(_LENGTHS.size))
                header = cast("dict[str, Any]", json.loads(await self._process.stdout.readexactly(header_bytes)))
                body = await self._process.stdout.readexactly(body_bytes)
                answer = self._waiting.get(header["id"])
                if answer is not None and not answer.done():
                    answer.set_result((header, body))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError):
            self._fail(await self._last_words())

    async def _keep_alive(self) -> None:
        """A half-open connection looks alive to everybody who only waits."""
        while True:
            await asyncio.sleep(self.host.ping_seconds)
            try:
                async with asyncio.timeout(self.host.silence_seconds):
                    await self.request("ping", {})
            except TimeoutError:
                self._silent = True
                self._end_process()
                return
            except MinionsError:
                return

    async def _send(self, header: Mapping[str, Any], body: bytes) -> None:
        assert self._process.stdin is not None
        head = json.dumps(header).encode()
        async with self._writing:
            if self._fault is not None:
                raise _anew(self._fault)
            self._process.stdin.write(_LENGTHS.pack(len(head), len(body)) + head + body)
            with contextlib.suppress(ConnectionError):  # the reader learns why it ended, and fails the answer with it
                await self._process.stdin.drain()

    def _fail(self, fault: MinionsError) -> None:
        if self._fault is None:
            self._fault = fault
            self._ended.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_anew(self._fault))

    def _end_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def _close(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """End of stdin lets the agent end what it runs, and itself; ssh follows."""
        self._fail(HostUnreachable(f"{self.host.name}: the connection was closed here"))
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._greeting is None:
            self._end_process()  # an ssh that is still connecting does not look at its stdin
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._end_process()
            await self._process.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _anew(fault: MinionsError) -> MinionsError:
    """The same for each who waits: one exception that is raised in many places collects their tracebacks."""
    made = type(fault).__new__(type(fault), *fault.args)
    vars(made).update(vars(fault))
    return made
