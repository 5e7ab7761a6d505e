"""Whether what lies on the disk is what the ledger says: every output of a run, hashed anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from minions.hosts.outputs import look
from minions.hosts.resume import Finished, Output
from minions.hosts.run_directory import Run


@dataclass(frozen=True, slots=True)
class Verified:
    """Places of jobs: right as they lie; wrong, with what is wrong; and those that the ledger does not have as done."""

    right: tuple[int, ...]
    wrong: tuple[tuple[int, Output], ...]
    not_done: tuple[int, ...]

    @property
    def all_right(self) -> bool:
        return not self.wrong and not self.not_done


def verify(root: Path, run: Run, finished: Mapping[str, Finished]) -> Verified:
    """Hash every output. Blocks for as long as that takes."""
    right: list[int] = []
    wrong: list[tuple[int, Output]] = []
    not_done: list[int] = []
    for place, (job, identity) in enumerate(run.jobs):
        end = finished.get(identity)
        if end is None:
            not_done.append(place)
            continue
        found = look(root / job.output, end.sha256, is_directory=end.is_directory)
        if found is Output.RIGHT:
            right.append(place)
        else:
            wrong.append((place, found))
    return Verified(tuple(right), tuple(wrong), tuple(not_done))
