"""Reasons: why an executor is idle although something waits, and why a task waits although executors are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from minions.domain.discretion import without_work
from minions.domain.matching import Capabilities, Lane, explain, lacks, objections
from minions.domain.pins import short

_NAMED = 3  # so many are named; of the rest the number is told

AT_WORK: Final = frozenset({"starting", "idle", "busy"})
"""States of executors that take what fits them, now or once they are free."""


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task of which something waits. task: its public id; name: team/project/task_name."""

    task: str
    name: str
    lane: Lane
    pin: Mapping[str, Any] | None = None

    @property
    def team(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An executor as matching sees it. leaves: tasks (public ids) that it leaves alone for now, with the reasons."""

    number: int
    name: str
    state: str
    reason: str
    offer: Capabilities
    leaves: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_at_work(self) -> bool:
        """Whether it takes what fits it; the others rest."""
        return self.state in AT_WORK


def why_idle(executor: Candidate, waiting: Sequence[WaitingTask]) -> list[str]:
    """What stands between an executor and each task that waits; empty when something waits that it will be given."""
    said: list[str] = []
    if executor.state in ("paused", "stopping", "offline"):
        said.append(f"it is {executor.state}: {executor.reason}" if executor.reason else f"it is {executor.state}")
    if not waiting:
        return [*said, "no task has anything to hand out"]
    served = [task for task in waiting if executor.offer.serves(task.team)]
    if others := sorted({task.team for task in waiting} - {task.team for task in served}):
        said.append(f"{_tasks(len(waiting) - len(served))} of {_list(others)}: its owner does not lend it to them")
    said += explain(Counter(task.lane for task in served), executor.offer)
    for task in served:
        if not objections(task.lane, executor.offer) and (reason := executor.leaves.get(task.task)):
            said.append(f"leaves {task.name} alone for now: {reason}")
    return said


def why_waiting(task: WaitingTask, executors: Sequence[Candidate], holders: Collection[int] = ()) -> list[str]:
    """Which requirement no executor meets; empty when one is about to take the task.

    executors: those that are not offline. holders: numbers of executors that made parts of the task, so they have the
    weights that it is pinned to.
    """
    if not executors:
        return ["no executor is online: start one with `minions executor`"]
    team = task.team
    if any(_about_to_take(task, team, each) for each in executors):
        return []
    willing = [each for each in executors if each.offer.serves(team)]
    if not willing:
        return [f"no executor can run it: their owners do not lend them to the team {team}"]
    able = [each for each in willing if not objections(task.lane, each.offer)]
    if not able:
        return [f"no executor can run it: {reason}" for reason in _nearest(task.lane, willing)]
    at_work = [each for each in able if each.is_at_work]
    trying = [each for each in at_work if task.task not in each.leaves]
    leaving = [each for each in at_work if task.task in each.leaves]
    resting = [each for each in able if not each.is_at_work]
    said: list[str] = []
    if trying:
        said.append(f"{_able(len(trying), able, said)} busy with other work")
    if leaving:
        reasons = [f"{each.name}: {each.leaves[task.task]}" for each in leaving]
        said.append(f"{_able(len(leaving), able, said)} leaving it alone for now ({_list(reasons, '; ')})")
    if resting:
        # Told to whoever submitted the task: what work of others made of this executor is not.
        reasons = [
            f"{each.name} is {each.state}{': ' if each.reason else ''}{without_work(each.reason)}" for each in resting
        ]
        said.append(f"{_able(len(resting), able, said)} not at work ({_list(reasons, '; ')})")
    if task.pin and not any(each.number in holders for each in at_work):
        said.append(
            f"it was begun with the weights {short(task.pin['model_digest'])} in {task.pin['precision']}; "
            "no executor that is at work has made a part of it with them"
        )
    return said


def _about_to_take(task: WaitingTask, team: str, executor: Candidate) -> bool:
    free = executor.state in ("starting", "idle") and task.task not in executor.leaves
    return free and executor.offer.serves(team) and not objections(task.lane, executor.offer)


def _nearest(lane: Lane, executors: Sequence[Candidate]) -> list[str]:
    """What those lack that lack the least, each lack told of the largest of them."""
    found = [(-(each.offer.memory_mb or 0), lacks(lane, each.offer)) for each in executors]
    fewest = min(len(lacking) for _, lacking in found)
    said: dict[str, str] = {}
    for _, lacking in sorted(found, key=lambda pair: pair[0]):
        for lack in lacking if len(lacking) == fewest else ():
            said.setdefault(lack.there.partition(", and the largest")[0], lack.there)
    return list(said.values())[:_NAMED]


def _able(count: int, able: Sequence[Candidate], said: Sequence[str]) -> str:
    """So many of those that could run it, as the subject of a sentence; said: the sentences about others of them."""
    subject = "executor that could run it is" if count == 1 else "executors that could run it are"
    if count == len(able) == 1:
        return f"the one {subject}"
    return f"{count}{' other' if said else ''} {subject}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _list(names: Sequence[str], separator: str = ", ") -> str:
    more = len(names) - _NAMED
    return separator.join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
