"""Which processes belong to a job: decided from a snapshot; what is not certain is named and left alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from minions.executor.supervisor.processes import Process
from minions.executor.supervisor.record import Identity, Record


@dataclass(frozen=True, slots=True)
class Unknown:
    """A process that looks like a job's, and for which that cannot be shown."""

    record: Record
    pid: int
    why: str

    def __str__(self) -> str:
        return f"process {self.pid} {self.why}"


@dataclass(frozen=True, slots=True)
class Belonging:
    """ours: what may be signalled. unknown: what must not be."""

    ours: Sequence[Process]
    unknown: Sequence[Unknown]


def belonging(
    records: Sequence[Record],
    processes: Sequence[Process],
    *,
    launchers: Collection[int] = (),
    whole_launchers: bool = False,
    known: Collection[Identity] = (),
) -> Belonging:
    """Find what the records left running.

    processes: all that started since the earliest record, without this process and the launchers. launchers: pids of
    launchers that were identified: only they have jobs as children, and what those left behind. whole_launchers: all of
    their children are to go, not only those of the records. known: found to be ours before, by ties that may be cut.
    """
    by_pid = {process.pid: process for process in processes}
    ours: set[int] = set()
    unknown: list[Unknown] = []
    for record in records:
        sure, doubtful = _of_record(record, processes, by_pid, launchers)
        ours |= sure
        unknown += doubtful
    for process in processes:
        is_launched = whole_launchers and process.ppid in launchers
        if is_launched or Identity(process.pid, process.start) in known:
            ours.add(process.pid)
    _add_descendants(ours, processes, by_pid)
    return Belonging(
        [process for process in processes if process.pid in ours and not process.is_zombie],
        [each for each in unknown if each.pid not in ours],
    )


def _of_record(
    record: Record, processes: Sequence[Process], by_pid: Mapping[int, Process], launchers: Collection[int]
) -> tuple[set[int], list[Unknown]]:
    """A job's session is ours when its leader is, or when a member carries the job's token.

    While a session has members, its number goes to no new process. The number of a leader alone says nothing.
    """
    carriers = {each.pid for each in processes if each.job_token == record.token and each.start >= record.start}
    holder = by_pid.get(record.pid)
    is_leader = holder is not None and holder.start == record.start
    is_ours = holder is not None and is_leader and (record.pid in carriers or holder.ppid in launchers)
    session = [each for each in processes if each.sid == record.sid and each.start >= record.start]
    if is_ours or any(each.pid in carriers for each in session):
        return carriers | {each.pid for each in session} | ({record.pid} if is_ours else set()), []
    if holder is not None and not is_leader:
        return carriers, []
    why_session = f"is in the session of job {record.job}, without its token"
    doubtful = {each.pid: why_session for each in session if not each.is_zombie}
    if holder is not None and not holder.is_zombie:
        doubtful[record.pid] = f"has the number and the start of job {record.job}, without its token"
    return carriers, [Unknown(record, pid, why) for pid, why in doubtful.items()]


def _add_descendants(ours: set[int], processes: Sequence[Process], by_pid: Mapping[int, Process]) -> None:
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.ppid, []).append(process)
    to_visit = list(ours)
    while to_visit:
        pid = to_visit.pop()
        for child in children.get(pid, ()):
            if child.pid not in ours and child.start >= by_pid[pid].start:
                ours.add(child.pid)
                to_visit.append(child.pid)


def whole_groups(ours: Collection[Process], processes: Collection[Process]) -> set[int]:
    """The process groups in which there is nobody but ours: one call ends them, even while they fork.

    Never 0 (how a group outside of this namespace reads) nor 1: as numbers of a call they mean many processes.
    """
    ours_pids = {process.pid for process in ours}
    mixed = {process.pgid for process in processes if process.pid not in ours_pids}
    return {process.pgid for process in ours if process.pgid > 1} - mixed


class Orphans:
    """Orphans without a token, each with the jobs that it may come from: those that ran when it was first seen."""

    def __init__(self) -> None:
        self._suspects: dict[Identity, set[str]] = {}

    def abandoned(
        self, children: Collection[Identity], running: Mapping[str, Identity | None], ended: str
    ) -> frozenset[Identity]:
        """The orphans whose every possible job has ended.

        children: of the launcher. running: the first processes of jobs, by token, read after the children; None for a
        job that was ordered and not heard of yet, one of the children may be it. ended: the token of one that just did.
        """
        orphans = set(children) - set(running.values())
        self._suspects = {each: self._suspects.get(each, {*running, ended}) & set(running) for each in orphans}
        return frozenset(each for each, suspects in self._suspects.items() if not suspects)
