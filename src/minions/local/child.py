"""A child process of the embedded deployment: started, started again when it dies, and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minions.domain.errors import MinionsError

QUICK_SECONDS = 5.0
QUICK_DEATHS = 5
_USAGE = 2  # its exit code for wrong flags: another try would end the same
_FIRST_DELAY_SECONDS = 0.25
_LONGEST_DELAY_SECONDS = 10.0
_TAIL_LINES = 8


class CannotStart(MinionsError):
    """A part of the deployment ends again and again."""

    code = "cannot_start"


@dataclass(frozen=True, slots=True)
class Plan:
    """How to start a child.

    line: one line for its standard input, for what must not stand in its arguments. pipe: what it watches to know that
    we are there.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    log: Path
    pipe: int
    descriptors: tuple[int, ...] = ()
    line: Callable[[], Awaitable[str]] | None = None


class Child:
    """One child process, always the same one after each death."""

    def __init__(
        self,
        plan: Plan,
        *,
        started: Callable[[], None],
        died: Callable[[str], None],
        first_delay_seconds: float = _FIRST_DELAY_SECONDS,
    ) -> None:
        """started: called after each start. died: told how, before it starts again. The delay doubles each time."""
        self.plan = plan
        self.started_at = 0.0
        self._started = started
        self._died = died
        self._first_delay_seconds = first_delay_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._ours_to_kill = False
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """None while it is not running."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """Keep it running until `stop`. Raises CannotStart when it ends at once again and again."""
        quick = 0
        while not self._stopping:
            said_before = self.plan.log.stat().st_size if self.plan.log.exists() else 0
            process = await self._start()
            code = await process.wait()
            if self._stopping:
                return
            lived_seconds = time.monotonic() - self.started_at
            quick = quick + 1 if lived_seconds < QUICK_SECONDS and not self._ours_to_kill else 0
            self._ours_to_kill = False
            if code == _USAGE or quick >= QUICK_DEATHS:
                raise CannotStart(
                    f"the {self.plan.name} cannot start ({_how(code)}):\n{_tail(self.plan.log, said_before)}",
                    hint=f"Its whole log is {self.plan.log}.",
                )
            self._died(f"{_how(code)}; it starts again")
            await asyncio.sleep(min(self._first_delay_seconds * 2 ** max(quick - 1, 0), _LONGEST_DELAY_SECONDS))

    def kill(self, *, again: bool = True) -> None:
        """kill -9; it will be started again unless told otherwise."""
        if self.pid is not None:
            self._ours_to_kill = True
            self._stopping = not again
            self._signal(signal.SIGKILL)

    async def stop(self, wait_seconds: float, hurry: asyncio.Event) -> None:
        """SIGTERM, then SIGKILL after a while or when there is a hurry; returns when it is gone."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        gone = asyncio.ensure_future(process.wait())
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait({gone, hurried}, timeout=wait_seconds, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not gone.done():
            self._signal(signal.SIGKILL)
        await gone

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _start(self) -> asyncio.subprocess.Process:
        """In a session of its own: Ctrl-C in the terminal reaches only the one who stops all in order."""
        plan = self.plan
        with os.fdopen(os.open(plan.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *plan.argv,
                env=plan.environment,
                cwd=plan.directory,
                stdin=asyncio.subprocess.DEVNULL if plan.line is None else asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(plan.pipe, *plan.descriptors),
                start_new_session=True,
            )
        self.started_at = time.monotonic()
        if self._stopping:  # `stop` came while it was being started
            self._signal(signal.SIGTERM)
        self._started()
        if plan.line is not None and process.stdin is not None:
            with contextlib.suppress(ConnectionError):  # it died early: the wait says how
                process.stdin.write(f"{await plan.line()}\n".encode())
                await process.stdin.drain()
            process.stdin.close()
        return process


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").strip().splitlines()
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  it said nothing"
