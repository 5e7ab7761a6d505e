"""An engine as the executor sees it: a child process that is fed rows, watched, and killed when it must be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from minions.domain.errors import (
    DiskFull,
    DoesNotFit,
    EngineFailed,
    MinionsError,
    ModelUnavailable,
    ParametersRefused,
    Unavailable,
)
from minions.domain.rows import Outcome
from minions.executor.engine_frames import LENGTHS, pack, unpack_outcomes
from minions.executor.engine_host import FACTS, REQUEST
from minions.executor.engines.base import EngineFacts, EngineRequest, Progress

HOST = ("-m", "minions.executor.engine_host")
_MEMORY_PROBE_SECONDS = 0.5
_LOG_TAIL_BYTES = 4096
_MOST_LOG_BYTES = 1 << 20  # before a host starts; one that runs may go beyond
_FRAME_LIMIT_BYTES = 1 << 20
# PYTHONUTF8: launchd's locale is ASCII. The fallback lets models run that use operations which Metal lacks.
_ENVIRONMENT = {
    "PYTHONUTF8": "1",
    "PYTORCH_ENABLE_MPS_FALLBACK": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
_ERRORS: dict[str, type[MinionsError]] = {
    error.code: error
    for error in (ModelUnavailable, EngineFailed, ParametersRefused, DoesNotFit, DiskFull, Unavailable)
}


class EngineCrashed(EngineFailed):
    """The engine's process ended by itself.

    exit_code: negative for a signal, as in subprocess. log_tail: the last lines of its log; for the owner's eyes.
    stalled: it was ended because it made nothing of its rows.
    """

    code = "engine_crashed"
    hint = "Rows that were under way were not answered; load the engine again."

    def __init__(self, message: str, exit_code: int, log_tail: str, stalled: bool = False) -> None:
        self.exit_code = exit_code
        self.stalled = stalled
        self.log_tail = log_tail
        super().__init__(message)


class EngineProcess:
    """One engine host and what is under way in it. Made by `start`; used from one event loop."""

    facts: EngineFacts

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log_path: Path,
        log_start: int,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._log_path = log_path
        self._log_start = log_start
        self._loaded: asyncio.Future[EngineFacts] = asyncio.get_running_loop().create_future()
        self._batches: asyncio.Queue[list[tuple[int, Outcome]] | None] = asyncio.Queue()
        self._under_way: set[int] = set()
        self._error: MinionsError | None = None
        self._kill_reason: str | None = None
        self._stalled = False
        self._now = asyncio.get_running_loop().time
        self._last_outcome = self._now()
        self._last_sign = self._now()
        self._suspended_at: float | None = None

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        request: EngineRequest,
        *,
        log_path: Path,
        memory_limit_bytes: int | None = None,
        on_progress: Progress | None = None,
        on_start: Callable[[EngineProcess], None] | None = None,
        host: Sequence[str] = HOST,
    ) -> AsyncGenerator[EngineProcess]:
        """Start a host, load the engine, and kill the host on the way out.

        log_path: what libraries print is appended there. on_start: told of the process before it loads. Raises
        ModelUnavailable or EngineFailed when it cannot be loaded, EngineCrashed when the process died over it. Loading
        takes as long as it takes: put a deadline around it, or watch `seconds_since_sign_of_life`.
        """
        engine = await cls._spawn(host, log_path)
        if on_start is not None:
            on_start(engine)
        tasks = [asyncio.create_task(engine._read(on_progress))]
        if memory_limit_bytes is not None:
            tasks.append(asyncio.create_task(engine._watch_memory(memory_limit_bytes)))
        try:
            engine._send(pack("load", request=REQUEST.dump_python(request, mode="json")))
            engine.facts = await engine._loaded
            yield engine
        finally:
            await engine.kill()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @classmethod
    async def _spawn(cls, host: Sequence[str], log_path: Path) -> EngineProcess:
        ours, theirs = socket.socketpair()
        _cut_log(log_path)
        with theirs, log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *host,
                str(theirs.fileno()),
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=_environment(os.environ),
            )
            log_start = os.fstat(log.fileno()).st_size
        reader, writer = await asyncio.open_connection(sock=ours, limit=_FRAME_LIMIT_BYTES)
        return cls(process, reader, writer, log_path, log_start)

    @property
    def pid(self) -> int:
        """The process id of the host, which leads its own process group."""
        return self._process.pid

    @property
    def rows_under_way(self) -> int:
        """How many rows were submitted and not answered yet."""
        return len(self._under_way)

    @property
    def stalled_seconds(self) -> float:
        """Seconds since the last outcome while rows are under way; 0 when none is. Suspended, it does not stall."""
        now = self._now() if self._suspended_at is None else self._suspended_at
        return now - self._last_outcome if self._under_way else 0.0

    @property
    def seconds_since_sign_of_life(self) -> float:
        """Seconds since the host sent anything; a live one does every second, unless native code holds it up."""
        return self._now() - self._last_sign

    @property
    def error(self) -> MinionsError | None:
        """Why the engine ended; None while it runs."""
        return self._error

    async def submit(self, keys: Sequence[int], texts: Sequence[str]) -> None:
        """Hand rows to the engine. Returns once they are on their way; raises what ended the engine when it has ended.

        keys: numbers of the caller's choice, unique among the rows under way.
        """
        if self._error is not None:
            raise self._error
        if not keys:
            return
        if not self._under_way:
            self._last_outcome = self._now()
        self._under_way.update(keys)
        self._send(pack("rows", keys=list(keys), texts=list(texts)))
        with contextlib.suppress(ConnectionError):  # the reader finds out why, and says so
            await self._writer.drain()

    async def outcomes(self) -> AsyncIterator[list[tuple[int, Outcome]]]:
        """Outcomes as they come, in batches, in any order. For one consumer.

        Ends after `kill`; raises EngineCrashed as soon as the process died, EngineFailed when the engine gave up.
        """
        while (batch := await self._batches.get()) is not None:
            yield batch
        if self._error is not None and self._kill_reason != "":
            raise self._error

    def suspend(self) -> None:
        """Freeze the host and all that it started: no computing until `proceed`; the memory stays taken."""
        if self._suspended_at is None and self._process.returncode is None:
            self._suspended_at = self._now()
            self._signal_group(signal.SIGSTOP)

    def proceed(self) -> None:
        """Go on after `suspend`, as if no time had passed."""
        if self._suspended_at is not None:
            passed = self._now() - self._suspended_at
            self._suspended_at = None
            self._last_outcome += passed
            self._last_sign += passed
            self._signal_group(signal.SIGCONT)

    async def kill(self) -> None:
        """End the host and all that it started, at once."""
        await self._kill("")

    async def kill_stalled(self, reason: str) -> None:
        """End a host that makes nothing of its rows; its crash says so."""
        self._stalled = True
        await self._kill(reason)

    async def _kill(self, reason: str) -> None:
        if self._process.returncode is None:
            if self._kill_reason is None:
                self._kill_reason = reason
            self._kill_group()
        await self._process.wait()
        self._writer.close()

    def _kill_group(self) -> None:
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _send(self, frame: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(frame)

    async def _read(self, on_progress: Progress | None) -> None:
        try:
            while True:
                frame, payload = await self._read_frame()
                self._last_sign = self._now()
                self._take(frame, payload, on_progress)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception as error:
            # A local server may report facts of another form. Nobody would read on, and all would wait for ever.
            self._error = EngineFailed(f"the engine answered in a form that is not known ({type(error).__name__})")
            self._kill_group()
        exit_code = await self._process.wait()
        self._kill_group()  # what the host may have started outlives it; later, the number could be someone else's
        error = self._error or EngineCrashed(self._crash_message(exit_code), exit_code, self._log_tail(), self._stalled)
        self._error = error
        if not self._loaded.done():
            self._loaded.set_exception(error)
            self._loaded.exception()  # a caller that was cancelled does not ask for it
        self._batches.put_nowait(None)

    async def _read_frame(self) -> tuple[dict[str, Any], bytes]:
        header_bytes, payload_bytes = LENGTHS.unpack(await self._reader.readexactly(LENGTHS.size))
        header = await self._reader.readexactly(header_bytes)
        payload = await self._reader.readexactly(payload_bytes) if payload_bytes else b""
        return json.loads(header), payload

    def _take(self, frame: dict[str, Any], payload: bytes, on_progress: Progress | None) -> None:
        match frame["kind"]:
            case "outcomes":
                batch = unpack_outcomes(frame["rows"], payload)
                self._under_way.difference_update(key for key, _ in batch)
                self._last_outcome = self._now()
                self._batches.put_nowait(batch)
            case "progress" if on_progress is not None:
                on_progress(frame["what"], frame["done"], frame["total"])
            case "loaded" if not self._loaded.done():
                self._loaded.set_result(FACTS.validate_python(frame["facts"]))
            case "failed":
                error = _ERRORS.get(frame["code"], EngineFailed)
                self._error = error(frame["message"], hint=frame["hint"])
            case _:
                pass

    def _crash_message(self, exit_code: int) -> str:
        if self._kill_reason:
            return f"the engine's process was ended: {self._kill_reason}"
        how = f"by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"with exit code {exit_code}"
        return f"the engine's process ended {how} with {len(self._under_way)} rows under way; see {self._log_path}"

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError), self._log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")
        return ""

    async def _watch_memory(self, limit_bytes: int) -> None:
        """Kill a host that holds more memory than it may, before the whole machine starts to swap."""
        while self._process.returncode is None:
            resident = resident_bytes(self._process.pid)
            if resident > limit_bytes:
                await self._kill(f"it held {resident:,} bytes of memory, its limit is {limit_bytes:,}")
                return
            await asyncio.sleep(_MEMORY_PROBE_SECONDS)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The host's: what it loads, libraries and models, has no business with the server's token."""
    return {name: value for name, value in ours.items() if name != "MINIONS_TOKEN"} | _ENVIRONMENT


def _cut_log(path: Path) -> None:
    """Keep the log of the last hosts, and not of all that ever ran here."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _MOST_LOG_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))


def resident_bytes(pid: int) -> int:
    """The memory that a process and all that it started hold; 0 when it is gone."""
    total = 0
    with contextlib.suppress(psutil.Error):
        host = psutil.Process(pid)
        for process in (host, *host.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
    return total
