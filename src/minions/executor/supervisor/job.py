"""A job as its supervisor sees it: from its start to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from minions.executor.supervisor.command import Command
from minions.executor.supervisor.messages import Closed, Ended
from minions.executor.supervisor.outcome import Ending, JobOutcome, ending_of
from minions.executor.supervisor.record import Identity, Record
from minions.executor.supervisor.stopping import StopReport


class Job:
    """Made by `Supervisor.start`. outcome: None until nothing is left of it, or what is left was reported."""

    def __init__(self, command: Command, token: str, stopper: Callable[[Job], Coroutine[Any, Any, None]]) -> None:
        self.command = command
        self.token = token
        self.record: Record | None = None
        self.outcome: JobOutcome | None = None
        self.is_settled = asyncio.Event()
        self._stopper = stopper
        self._stopping: asyncio.Task[None] | None = None
        self._stop_reason = ""
        self._timed_out = False
        self._ended: Ended | None = None
        self._closed: Closed | None = None
        self._cleaned_up: StopReport | None = None
        self._stopped: StopReport | None = None
        self._has_outcome = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether its first process has not ended, as far as is known."""
        return self._ended is None and self.outcome is None

    @property
    def is_closed(self) -> bool:
        """Whether its output files are complete."""
        return self._closed is not None

    async def wait(self) -> JobOutcome:
        """Its outcome, once there is one. Being cancelled does nothing to the job."""
        await self._has_outcome.wait()
        assert self.outcome is not None
        return self.outcome

    async def stop(self, reason: str) -> JobOutcome:
        """Stop it, and all that it started: TERM, a grace, KILL. The first reason counts; later calls wait with it."""
        await self.is_settled.wait()
        if self.outcome is None and self._stopping is None:
            self._stop_reason = reason
            self._stopping = asyncio.create_task(self._stopper(self))
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
        return await self.wait()

    async def stop_after(self, seconds: float) -> None:
        """The time-out; counted from when it was let go."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_outcome.wait()
        except TimeoutError:
            if self._stopping is None and self._ended is None:
                self._timed_out = True
            await self.stop(f"it took longer than its time-out of {seconds:g} s")

    def started(self, record: Record) -> None:
        """It is on record and was let go."""
        self.record = record
        self.is_settled.set()

    def refused(self, reason: str) -> None:
        """It never was."""
        self._finish(JobOutcome(Ending.NOT_STARTED, reason=reason))

    def ended(self, message: Ended) -> None:
        """Its first process has ended."""
        self._ended = message
        self._finish_if_complete()

    def closed(self, message: Closed) -> None:
        """Its output files are complete."""
        self._closed = message
        self._finish_if_complete()

    def was_told(self, report: StopReport) -> None:
        """The stop is over. Whether it ended the job, the end of the job says; unless there is none."""
        assert self.record is not None
        self._stopped = report
        if any(each.pid == self.record.pid for each in report.left):
            self._finish(JobOutcome(self._asked_ending, reason=self._stop_reason, left=report.complaints))
        self._finish_if_complete()

    def cleaned_up(self, report: StopReport) -> None:
        """What outlived its first process was stopped, or is known to be there still."""
        self._cleaned_up = report
        self._finish_if_complete()

    def lost(self, reason: str, complaints: tuple[str, ...]) -> None:
        """Its launcher died, so nobody can say how it ended; it was stopped."""
        self._finish(JobOutcome(Ending.STOPPED, reason=reason, left=complaints))

    @property
    def _asked_ending(self) -> Ending:
        return Ending.TIMED_OUT if self._timed_out else Ending.STOPPED

    def _finish_if_complete(self) -> None:
        ended, closed, cleaned_up, record = self._ended, self._closed, self._cleaned_up, self.record
        if ended is None or closed is None or cleaned_up is None or record is None:
            return
        if self._stopping is not None and self._stopped is None:
            return
        told = frozenset[Identity]() if self._stopped is None else self._stopped.told
        asked = self._asked_ending if record.identity in told else None
        ending, exit_code, signal_number = ending_of(ended.wait_status, asked)
        self._finish(
            JobOutcome(
                ending=Ending.NOT_STARTED if ended.fault else ending,
                exit_code=None if ended.fault else exit_code,
                signal_number=signal_number,
                reason=ended.fault or (self._stop_reason if asked else ""),
                seconds=ended.seconds,
                stdout_bytes=closed.stdout_bytes,
                stderr_bytes=closed.stderr_bytes,
                stderr_tail=closed.stderr_tail,
                peak_memory_bytes=None if ended.fault else ended.peak_memory_bytes,
                leftovers=len(cleaned_up.told - {record.identity}),
                left=cleaned_up.complaints,
                output_fault=closed.output_fault,
            )
        )

    def _finish(self, outcome: JobOutcome) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.is_settled.set()
            self._has_outcome.set()
