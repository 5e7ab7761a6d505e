"""Running one job: from its assignment to an output that is finished, or to why there is none."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from minions.domain.errors import DiskFull, MinionsError, Unavailable
from minions.domain.jobs import Job
from minions.executor.commands import messages
from minions.executor.commands.inputs import InputStore
from minions.executor.commands.job_lines import JobLines
from minions.executor.commands.messages import Assigned, Json, Session
from minions.executor.commands.outbox import Kept, Outbox
from minions.executor.commands.outputs import OutputMissing, OutputTooLarge, clear_output, full_disk_said, take_output
from minions.executor.commands.settings import OF_A_LOGIN, OUR_VARIABLES, CommandSettings
from minions.executor.commands.workplaces import Workplace
from minions.executor.supervisor.command import Command, CommandInvalid
from minions.executor.supervisor.outcome import Ending, JobOutcome
from minions.executor.supervisor.supervisor import Supervisor

_LOW_DISK_BYTES = 1 << 20
_KEPT_LOGS = 200
_CODES = {
    Ending.EXITED: "command_failed",
    Ending.NOT_STARTED: "command_failed",
    Ending.SIGNALLED: "killed",
    Ending.TIMED_OUT: "timed_out",
}


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that failed. job: None when the command was never started. log: what it printed."""

    code: str
    message: str
    job: Json | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """No attempt: it was not the job's fault."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stuck:
    """Its processes could not be ended: while they may be there, nobody else may have the job."""

    reason: str


Outcome = Kept | Failed | GivenUp | Stuck


@dataclass(frozen=True, slots=True)
class Bench:
    """What jobs are run with. fetch(assigned, path, target): fetches an input. writing: outputs that are being made."""

    settings: CommandSettings
    supervisor: Supervisor
    outbox: Outbox
    lines: JobLines
    inputs: InputStore
    fetch: Callable[[Assigned, str, Path], Awaitable[None]]
    writing: WeakValueDictionary[Path, asyncio.Lock] = field(default_factory=WeakValueDictionary[Path, asyncio.Lock])

    async def run(
        self, session: Session, assigned: Assigned, workplace: Workplace, on_left: Callable[[str], None]
    ) -> Outcome:
        """Run it. Raises DiskFull, Unavailable: no attempt.

        Cancelled, however often, it stops the job first; on_left(reason) hears when that did not end it.
        """
        try:
            job, identity = await self.lines.job(assigned)
            await self.inputs.check(
                assigned.inputs, workplace.directory, lambda path, target: self.fetch(assigned, path, target)
            )
        except (DiskFull, Unavailable):
            raise
        except MinionsError as error:
            return Failed(error.code, error.message)
        place = workplace.directory / job.output
        # The same job of another task, or of a run that was given up, may be at work there.
        async with self.writing.setdefault(place, asyncio.Lock()):
            return await self._run_at(
                place, session, assigned, self._command(assigned, job, workplace), identity, on_left
            )

    async def _run_at(
        self,
        place: Path,
        session: Session,
        assigned: Assigned,
        command: Command,
        identity: str,
        on_left: Callable[[str], None],
    ) -> Outcome:
        output = place.relative_to(command.directory).as_posix()
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            with full_disk_said(place):
                await asyncio.to_thread(_make_ready, command, place)
            outcome = await self._outcome(assigned, command, on_left)
        except CommandInvalid as error:
            return Failed("command_failed", error.message)
        except OSError as error:
            return Failed("command_failed", f"{output}: nothing can be written there ({error.strerror})")
        if outcome.left:
            return Stuck(_still_there(assigned, outcome.left))
        about = _about(assigned, output, identity, outcome, started_at) | {"host": self.settings.name}
        return await asyncio.to_thread(self._judged, session, assigned, command, outcome, about, place)

    async def _outcome(self, assigned: Assigned, command: Command, on_left: Callable[[str], None]) -> JobOutcome:
        return await self.supervisor.run(command, lambda left: on_left(_still_there(assigned, left)))

    def _judged(
        self, session: Session, assigned: Assigned, command: Command, outcome: JobOutcome, about: Json, place: Path
    ) -> Outcome:
        """What it comes to, once nothing of it runs. Raises DiskFull. Blocks."""
        if not outcome.succeeded:
            try:
                return self._failed(command, outcome, about)
            finally:
                clear_output(place)  # half an output helps nobody, and takes room
        try:
            return self._finished(session, assigned, command, place, about)
        except OutputMissing as error:
            output = about["output"]
            told = error.message if output in error.message else f"{output}: {error.message}"
            told = _with_stderr(told, outcome)
            return Failed(error.code, told, about, self._log(command))
        except OutputTooLarge as error:
            told = f"{about['output']}: {error.message} {error.advice} It stays in the worktree until it is run again."
            return Failed(error.code, told, about, self._log(command))

    def _command(self, assigned: Assigned, job: Job, workplace: Workplace) -> Command:
        printed = self.settings.state / "printed"
        return Command(
            job=assigned.acquirement,
            argv=job.argv,
            directory=workplace.directory,
            stdout=printed / f"{assigned.acquirement}.stdout",
            stderr=printed / f"{assigned.acquirement}.stderr",
            environment={"PWD": str(workplace.directory), **workplace.environment, **job.environment},
            # What the machine's owner has set is for jobs, too; what is ours may hold a token.
            pass_through=[name for name in os.environ if not name.startswith(OUR_VARIABLES) and name not in OF_A_LOGIN],
            timeout_seconds=assigned.timeout_seconds,
        )

    def _finished(self, session: Session, assigned: Assigned, command: Command, place: Path, about: Json) -> Kept:
        target = self.outbox.output(assigned.acquirement)
        output = take_output(place, target, assigned.output_most_bytes, about["output"])
        command.stdout.unlink(missing_ok=True)
        command.stderr.unlink(missing_ok=True)
        about = about | ({"is_directory": True} if output.is_directory else {})
        about = about | ({"is_executable": True} if output.is_executable else {})
        said = messages.commit(assigned, about, output.sha256, output.size_bytes, self.settings.version)
        with full_disk_said(place):
            return self.outbox.keep(session, said)

    def _failed(self, command: Command, outcome: JobOutcome, about: Json) -> Outcome:
        if outcome.ending is Ending.STOPPED:
            return GivenUp(outcome.explain())
        full = shutil.disk_usage(command.directory).free < _LOW_DISK_BYTES
        if full or outcome.output_fault or os.strerror(errno.ENOSPC) in outcome.stderr_tail:
            raise DiskFull(f"the disk of {command.directory} is full: a job {outcome.explain()}")
        return Failed(
            _CODES[outcome.ending], _with_stderr(f"it {outcome.explain()}", outcome), about, self._log(command)
        )

    def _log(self, command: Command) -> Path | None:
        """Both outputs as one file, and the oldest of such files forgotten."""
        log = command.stdout.with_suffix(".log")
        try:
            with log.open("wb") as joined:
                for name, path in (("stdout", command.stdout), ("stderr", command.stderr)):
                    joined.write(f"--- {name}\n".encode())
                    if path.exists():
                        with path.open("rb") as printed:
                            shutil.copyfileobj(printed, joined)
                        path.unlink()
                    joined.write(b"\n")
            kept = sorted(log.parent.glob("*.log"), key=lambda path: path.stat().st_mtime)
            for path in kept[:-_KEPT_LOGS]:
                path.unlink(missing_ok=True)
        except OSError:
            return None
        return log


def _still_there(assigned: Assigned, left: Sequence[str]) -> str:
    found = f"job {assigned.subtask_id} could not be ended: {'; '.join(left)}"
    return f"{found}; it is looked at again now and then, and when this executor starts anew"


def _make_ready(command: Command, place: Path) -> None:
    command.stdout.parent.mkdir(parents=True, exist_ok=True)
    clear_output(place)


def _with_stderr(said: str, outcome: JobOutcome) -> str:
    return f"{said}\n{outcome.stderr_tail}" if outcome.stderr_tail.strip() else said


def _about(assigned: Assigned, output: str, identity: str, outcome: JobOutcome, started_at: str) -> Json:
    found: dict[str, Any] = {
        "id": identity,
        "output": output,
        "attempt": assigned.attempt + 1,
        "started_at": started_at,
        "seconds": outcome.seconds,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal_number,
        "peak_memory_bytes": outcome.peak_memory_bytes,
        "stdout_bytes": outcome.stdout_bytes,
        "stderr_bytes": outcome.stderr_bytes,
        "leftovers": outcome.leftovers,
    }
    return {name: value for name, value in found.items() if value is not None}
