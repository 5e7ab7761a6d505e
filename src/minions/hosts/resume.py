"""What of a run is left to do, from what the ledger says, what lies on the disk, and what was delivered. Pure."""

from __future__ import annotations

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
    """A task of an earlier run that has not ended. open: identities of its jobs that have no end yet."""

    task: str
    fits: bool
    open: frozenset[str]


@dataclass(frozen=True, slots=True)
class Submission:
    """keep: tasks that go on. cancel: tasks that hold what nobody wants any more. submit: places of jobs to hand in."""

    keep: tuple[str, ...]
    cancel: tuple[str, ...]
    submit: tuple[int, ...]


def submission(jobs: Sequence[tuple[Job, str]], run: Sequence[int], open_tasks: Sequence[OpenTask]) -> Submission:
    """What to hand in, beside what an earlier coordinator handed in: its jobs may be running on hosts this moment.

    A task is kept if all that is open in it is wanted, on the same terms; else it is cancelled as a whole.
    """
    wanted = {jobs[place][1] for place in run}
    kept: set[str] = set()
    keep: list[str] = []
    cancel: list[str] = []
    for each in open_tasks:
        if not each.open:
            continue  # it is about to end by itself
        if each.fits and each.open <= wanted and not each.open & kept:
            keep.append(each.task)
            kept |= each.open
        else:
            cancel.append(each.task)
    return Submission(tuple(keep), tuple(cancel), tuple(place for place in run if jobs[place][1] not in kept))
