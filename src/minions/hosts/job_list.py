"""The jobs of a run as they lie in its file, each line read when its job is asked for: one of 100,000 costs one."""

from __future__ import annotations

import json
import operator
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import cast, overload

from minions.domain.errors import MinionsError
from minions.domain.jobs import Job, parse_job_line

_IDENTITY = re.compile(rb'\{"index":[0-9]+,"id":"([0-9a-f]{64})"')
# No text can hold these bytes: a quote in it has a backslash before it. Variables of the job come after its output.
_OUTPUT = re.compile(rb'"output":"((?:[^"\\]|\\.)*)"')


class JobList(Sequence[tuple[Job, str]]):
    """Jobs with their identities, in order. Any access raises MinionsError for a line that cannot be read.

    name: of the file. content: lines as `job_line` makes them.
    """

    def __init__(self, name: str, content: bytes) -> None:
        self._name = name
        self._content = content
        ends = (match.end() for match in re.finditer(b"\n", content))
        self._starts = array("Q", chain([0], ends))
        if self._starts[-1] < len(content):
            self._starts.append(len(content))

    def __repr__(self) -> str:
        return f"<JobList {self._name} {len(self)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        jobs = cast("Sequence[object]", other)
        return len(self) == len(jobs) and all(map(operator.eq, self, jobs))

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as a list: equal to what is not hashed alike

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, place: int) -> tuple[Job, str]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[Job, str]]: ...
    def __getitem__(self, place: int | slice) -> tuple[Job, str] | list[tuple[Job, str]]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        try:
            return parse_job_line(self._line(place))
        except ValueError as error:
            raise self._damaged(place, error) from None

    def identity(self, place: int) -> str:
        """As `self[place][1]`, without reading the rest of the line."""
        found = _IDENTITY.match(self._content, self._starts[place])
        return found[1].decode() if found else self[place][1]

    def output(self, place: int) -> str:
        """As `self[place][0].output`, without reading the rest of the line."""
        found = _OUTPUT.search(self._content, self._starts[place], self._starts[place + 1])
        if found is None:
            return self[place][0].output
        return str(json.loads(b'"' + found[1] + b'"')) if b"\\" in found[1] else found[1].decode()

    def identities(self) -> Iterator[str]:
        """In order."""
        return map(self.identity, range(len(self)))

    def places_like(self, reference: str) -> list[int]:
        """Where a job may be whose identity begins so, or whose output is this one; others are neither."""
        output = b'"output":' + json.dumps(reference).encode("ascii")
        looked = [output, *([b'"id":"' + reference.encode("ascii")] if reference.isascii() else [])]
        found: set[int] = set()
        for text in looked:
            at = self._content.find(text)
            while at >= 0:
                found.add(self._place_at(at))
                at = self._content.find(text, at + 1)
        return sorted(found)

    def _place_at(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _line(self, place: int) -> bytes:
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        return self._content[self._starts[place] : self._starts[place + 1]]

    def _damaged(self, place: int, error: ValueError) -> MinionsError:
        return MinionsError(
            f"{self._name}, line {place + 1}: {error}", hint="Correct minions.toml; `minions run` writes it anew."
        )
