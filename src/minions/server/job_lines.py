"""The lines of jobs, read from the files of their tasks with few reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from minions.domain.jobs import Job, parse_job_line
from minions.server.inputs import Inputs

_GAP_BYTES = 64 << 10  # reading over so much is cheaper than asking twice
_READ_BYTES = 4 << 20


class Line(Protocol):
    """Where the line of a job lies."""

    @property
    def subtask_id(self) -> int: ...

    @property
    def object(self) -> str: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class JobLine:
    """The line of one subtask."""

    subtask_id: int
    object: str
    start: int
    end: int | None


def read_jobs(inputs: Inputs, found: Sequence[Line]) -> dict[int, tuple[Job, str]]:
    """The jobs of subtasks of one task, with their identities, by number. Raises MinionsError, ValueError. Blocks."""
    if not found:
        return {}
    source = inputs.open(found[0].object)
    read: dict[int, tuple[Job, str]] = {}
    for group in _groups(found):
        start = group[0].start
        data = source.read(start, group[-1].end or source.size_bytes)
        for each in group:
            end = each.end or source.size_bytes
            read[each.subtask_id] = parse_job_line(data[each.start - start : end - start])
    return read


def _groups(found: Sequence[Line]) -> Iterator[list[Line]]:
    """Subtasks whose lines lie near each other."""
    group: list[Line] = []
    for each in found:
        near = group and each.start - (group[-1].end or 0) <= _GAP_BYTES
        if group and not (near and (each.end or 0) - group[0].start <= _READ_BYTES):
            yield group
            group = []
        group.append(each)
    if group:
        yield group
