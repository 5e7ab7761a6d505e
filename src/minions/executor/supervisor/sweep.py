"""The sweep: what earlier executors left in a directory is stopped, and each of their jobs reported."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import Conflict
from minions.executor.supervisor.journal import SUFFIX
from minions.executor.supervisor.process_table import process_table
from minions.executor.supervisor.processes import ProcessTable
from minions.executor.supervisor.record import Identity, Journal, LauncherRecord, Record, parse_journal
from minions.executor.supervisor.stopping import Grace, StopReport, Target, stop

_LAUNCHER_SECONDS = 2.0
_POLL_SECONDS = 0.02


class DirectoryTaken(Conflict):
    """Another executor runs its commands from this directory."""

    code = "directory_taken"
    hint = "Stop that executor, or give this one another directory."


@dataclass(frozen=True, slots=True)
class Swept:
    """One job that was not known to be gone. complaints: what is left of it, or may be; empty when it is clean."""

    record: Record
    complaints: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.complaints


@dataclass(frozen=True, slots=True)
class SweepReport:
    """complaints: of all jobs, and of processes that no record explains. stopped: processes that were told to end.
    damaged_lines: lines of records that were never written to their end; their jobs were not let go."""

    jobs: tuple[Swept, ...] = ()
    complaints: tuple[str, ...] = ()
    stopped: int = 0
    damaged_lines: int = 0

    @property
    def is_clean(self) -> bool:
        """Nothing of any job is left: they can be handed out again."""
        return not self.complaints


async def sweep(directory: Path, *, grace: Grace | None = None) -> SweepReport:
    """Stop what is left of the jobs of a directory. Raises DirectoryTaken while an executor runs jobs from it."""
    with claimed(directory):
        return await sweep_claimed(directory, process_table(), grace or Grace())


@contextlib.contextmanager
def claimed(directory: Path) -> Generator[None]:
    """Have the directory for oneself, until this process dies at most. Raises DirectoryTaken."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryTaken(f"another executor runs commands from {directory}") from None
        yield


async def sweep_claimed(directory: Path, table: ProcessTable, grace: Grace) -> SweepReport:
    """The same for who has the directory already."""
    jobs: list[Swept] = []
    complaints: list[str] = []
    stopped = damaged_lines = 0
    for path in await asyncio.to_thread(_journals, directory):
        journal = parse_journal(path.read_bytes())
        launcher = journal.launcher and identified(journal.launcher, table)
        report = await stop(target_of(journal, launcher, table.boot_id()), table, grace)
        if not report.complaints:
            if launcher is not None:
                await _see_off(launcher, table)
            path.unlink(missing_ok=True)  # a launcher that had nothing left removed it itself
        jobs += [Swept(record, complaints_of(record, report)) for record in journal.records]
        complaints += report.complaints
        stopped += len(report.told)
        damaged_lines += journal.damaged_lines
    return SweepReport(tuple(jobs), tuple(complaints), stopped, damaged_lines)


def _journals(directory: Path) -> list[Path]:
    for unfinished in directory.glob("*.new"):
        unfinished.unlink()
    return sorted(directory.glob(f"*{SUFFIX}"))


def target_of(journal: Journal, launcher: Identity | None, boot_id: str) -> Target:
    """What a sweep may stop: after a reboot, nothing, since every number belongs to another process now."""
    records = [record for record in journal.records if record.boot_id == boot_id]
    return Target(records, frozenset(() if launcher is None else (launcher,)), whole_launchers=True)


def identified(launcher: LauncherRecord, table: ProcessTable) -> Identity | None:
    """The launcher, if it is certain that this is it: its number, start, boot and token."""
    if launcher.boot_id != table.boot_id():
        return None
    process = table.look(launcher.pid)
    if process is None or process.is_zombie or process.start != launcher.start:
        return None
    return launcher.identity if process.launcher_token == launcher.token else None


def complaints_of(record: Record, report: StopReport) -> tuple[str, ...]:
    """Of one job. Whose a process is that does not end cannot always be said, so every job of the journal names it."""
    unknown = [str(each) for each in report.unknown if each.record == record]
    return (*report.complaints_left, *unknown)


async def _see_off(launcher: Identity, table: ProcessTable) -> None:
    """Without jobs and without an executor it ends by itself, unless somebody stopped it."""
    deadline = time.monotonic() + _LAUNCHER_SECONDS
    while (process := table.look(launcher.pid)) is not None and process.start == launcher.start:
        if process.is_zombie:
            return
        if time.monotonic() > deadline:
            table.signal(launcher.pid, launcher.start, signal.SIGKILL)
        await asyncio.sleep(_POLL_SECONDS)
