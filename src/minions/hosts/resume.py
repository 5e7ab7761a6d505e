"""What of a run is left to do, from what the ledger says, what lies on the disk, and what was delivered. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from minions.domain.jobs import Job


@dataclass(frozen=True, slots=True)
class Finished:
    """A job that is done. sha256: of its output. task, index: where the ledger has it."""

    sha256: str
    is_directory: bool
    task: str
    index: int


class Output(StrEnum):
    """What lies where an output should be."""

    RIGHT = "right"
    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Remaining:
    """Places in the list of jobs. done: nothing to do. fetch: done, but its output never arrived. run: to be run.

    returned: those of `run` that were done once, and whose output is not what it was.
    """

    done: tuple[int, ...]
    fetch: tuple[int, ...]
    run: tuple[int, ...]
    returned: tuple[int, ...]


def remaining(
    jobs: Sequence[tuple[Job, str]],
    selected: Sequence[int],
    finished: Mapping[str, Finished],
    look: Callable[[Job, Finished], Output],
    delivered: Collection[tuple[str, str]],
) -> Remaining:
    """look: asked only for jobs that the ledger has as done. delivered: (job, hash) of outputs that were in place."""
    done: list[int] = []
    fetch: list[int] = []
    run: list[int] = []
    returned: list[int] = []
    for place in selected:
        job, identity = jobs[place]
        end = finished.get(identity)
        if end is None:
            run.append(place)
        elif look(job, end) is Output.RIGHT:
            done.append(place)
        elif (identity, end.sha256) in delivered:
            run.append(place)
            returned.append(place)
        else:
            fetch.append(place)
    return Remaining(tuple(done), tuple(fetch), tuple(run), tuple(returned))


@dataclass(frozen=True, slots=True)
class OpenTask:
    """A task of an earlier run that has not ended. open: identities of its jobs that have no end yet. held: those of
    them that an executor holds, running or done and not delivered. is_split: whether all its jobs are told."""

    task: str
    fits: bool
    open: frozenset[str]
    held: frozenset[str] = frozenset()
    is_split: bool = True


@dataclass(frozen=True, slots=True)
class Submission:
    """keep: tasks that go on. wind_down: tasks of which only what is held goes on. cancel: tasks that hold nothing, or
    what may run twice. submit: places of jobs to hand in."""

    keep: tuple[str, ...]
    wind_down: tuple[str, ...]
    cancel: tuple[str, ...]
    submit: tuple[int, ...]


def submission(
    jobs: Sequence[tuple[Job, str]], run: Sequence[int], open_tasks: Sequence[OpenTask], *, may_run_twice: bool = False
) -> Submission:
    """What to hand in, beside what an earlier coordinator handed in: its jobs may be running on hosts this moment.

    A task is kept if all that is open in it is wanted, on the same terms. Of any other, what an executor holds stays
    with it, for nobody can tell from here that it does not run any more; only the rest may be handed in anew.
    """
    wanted = {jobs[place][1] for place in run}
    holders = Counter(identity for each in open_tasks for identity in each.held)
    taken: set[str] = set()
    keep: list[str] = []
    wind_down: list[str] = []
    cancel: list[str] = []
    for each in open_tasks:
        if not each.open and each.is_split:
            continue  # it is about to end by itself
        elsewhere = {identity for identity in each.open if holders[identity] > (identity in each.held)}
        if each.fits and each.is_split and each.open <= wanted and not each.open & taken and not elsewhere:
            keep.append(each.task)
            taken |= each.open
        elif each.held and not may_run_twice:
            wind_down.append(each.task)
            taken |= each.held
        else:
            cancel.append(each.task)
    submit = tuple(place for place in run if jobs[place][1] not in taken)
    return Submission(tuple(keep), tuple(wind_down), tuple(cancel), submit)
