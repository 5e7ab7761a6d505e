"""Stopping: TERM and CONT, a grace, then KILL, again and again until nothing of the jobs is found."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from minions.executor.supervisor.belonging import Belonging, Unknown, belonging, whole_groups
from minions.executor.supervisor.processes import Process, ProcessTable
from minions.executor.supervisor.record import Identity, Record

_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Grace:
    """term_seconds: from TERM to KILL. kill_seconds: from KILL until what is left is reported instead."""

    term_seconds: float = 5.0
    kill_seconds: float = 10.0

    @property
    def seconds(self) -> float:
        """The longest that a stop takes."""
        return self.term_seconds + self.kill_seconds


@dataclass(frozen=True, slots=True)
class StopReport:
    """told: the processes that got a signal. left: ours, and still there. unknown: left alone."""

    told: frozenset[Identity]
    left: Sequence[Process]
    unknown: Sequence[Unknown]

    @property
    def complaints_left(self) -> tuple[str, ...]:
        """Of what did not end, in words."""
        return tuple(f"process {process.pid} did not end, even by SIGKILL" for process in self.left)

    @property
    def complaints(self) -> tuple[str, ...]:
        """What is not as it should be, in words; empty when nothing is left."""
        return (*self.complaints_left, *(str(each) for each in self.unknown))


class Step(Enum):
    """What comes next while processes are there."""

    TERM = auto()
    KILL = auto()
    GIVE_UP = auto()


def next_step(elapsed_seconds: float, grace: Grace) -> Step:
    """elapsed_seconds: since the first look, which may take long where much runs."""
    if elapsed_seconds < grace.term_seconds:
        return Step.TERM
    return Step.KILL if elapsed_seconds < grace.term_seconds + grace.kill_seconds else Step.GIVE_UP


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be stopped; for the fields see `belonging`. records: of this boot."""

    records: Sequence[Record]
    launchers: frozenset[Identity] = frozenset()
    whole_launchers: bool = False
    known: frozenset[Identity] = frozenset()

    @property
    def since(self) -> int:
        """Nothing of ours started before that."""
        starts = [each.start for each in (*self.records, *self.known)]
        if self.whole_launchers or not starts:
            starts += [each.start for each in self.launchers]
        return min(starts)


async def stop(target: Target, table: ProcessTable, grace: Grace) -> StopReport:
    """Stop all processes of the target. Never raises for a process; takes as long as the grace allows, at most."""
    if not (target.records or target.launchers or target.known):
        return StopReport(frozenset(), (), ())
    known = set(target.known)
    told: set[Identity] = set()
    pause_seconds = _FIRST_PAUSE_SECONDS
    began: float | None = None
    while True:
        found, processes = await asyncio.to_thread(_look, target, known, table)
        began = began or time.monotonic()
        known |= {_identity(process) for process in found.ours}
        step = next_step(time.monotonic() - began, grace)
        if not found.ours or step is Step.GIVE_UP:
            return StopReport(frozenset(told), found.ours, found.unknown)
        if step is Step.TERM:
            _terminate([process for process in found.ours if _identity(process) not in told], table)
        else:
            _kill(found.ours, processes, table, {os.getpgrp(), *(each.pid for each in target.launchers)})
            pause_seconds = _FIRST_PAUSE_SECONDS
        told |= {_identity(process) for process in found.ours}
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(_LONGEST_PAUSE_SECONDS, 2 * pause_seconds)


def _look(target: Target, known: Collection[Identity], table: ProcessTable) -> tuple[Belonging, list[Process]]:
    launchers = {each.pid for each in target.launchers}
    excepted = launchers | {os.getpid()}
    processes = [process for process in table.snapshot(target.since) if process.pid not in excepted]
    found = belonging(
        target.records, processes, launchers=launchers, whole_launchers=target.whole_launchers, known=known
    )
    return found, processes


def _terminate(processes: Sequence[Process], table: ProcessTable) -> None:
    """CONT after TERM: a stopped process gets no other signal before it goes on."""
    for number in (signal.SIGTERM, signal.SIGCONT):
        for process in processes:
            table.signal(process.pid, process.start, number)


def _kill(
    ours: Sequence[Process], processes: Sequence[Process], table: ProcessTable, protected: Collection[int]
) -> None:
    """A member that is ours keeps the group's number from anybody else, so the group can be ended by its number.

    protected: groups of launchers and our own; a job that was just forked is still in its launcher's.
    """
    by_group = whole_groups(ours, processes).difference(protected)
    for process in ours:
        if process.pgid in by_group and table.start_of(process.pid) == process.start:
            try:
                os.killpg(process.pgid, signal.SIGKILL)
            except OSError:
                continue
            by_group.discard(process.pgid)
    for process in ours:
        table.signal(process.pid, process.start, signal.SIGKILL)


def _identity(process: Process) -> Identity:
    return Identity(process.pid, process.start)
