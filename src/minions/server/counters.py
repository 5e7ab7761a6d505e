"""What this server has done since it started, in plain numbers that cost the hot calls next to nothing.

They change on the event loop only, and a thread may read them. The counters of the metrics library take a lock for each
number, ten for a commit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, get_args

from minions.domain.errors import MinionsError
from minions.domain.models import Kind
from minions.domain.subtask import GiveBack, GivenBack, PartCommit

LATENCY_SECONDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 35.0)
"""Upper bounds of the classes of latencies. The last is for long polls, which wait for 30 s."""

_OWN_WORDS = "executor"  # a release for a reason in the executor's words: the ledger has it
_RELEASES = frozenset({"not_delivered", "answer_lost", "model_unavailable"})
_OTHER = "other"
_STATUS_CLASSES = {1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}


class Latencies:
    """Durations of the requests of one route: how many in each class, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_SECONDS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class Work:
    """What was done of one kind of task."""

    acquired: int = 0
    parts: int = 0
    done: int = 0
    rows: int = 0
    failed_rows: int = 0
    input_bytes: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Counters:
    """Counts since the server started. requests: by (method, route, class of the status)."""

    work: dict[str, Work] = field(default_factory=lambda: {kind: Work() for kind in get_args(Kind)})
    released: Counter[str] = field(default_factory=Counter[str])
    lost: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    set_aside: int = 0
    requests: dict[tuple[str, str, str], Latencies] = field(default_factory=dict[tuple[str, str, str], Latencies])

    def add_part(self, kind: str, part: PartCommit) -> None:
        """A part was accepted."""
        work = self.work[kind]
        work.parts += 1
        work.done += part.final
        work.rows += part.rows - (part.kept_rows or 0)
        work.failed_rows += part.failed_rows
        work.input_bytes += part.input_bytes
        work.input_tokens += part.input_tokens
        work.output_tokens += part.output_tokens

    def add_given_back(self, given: Sequence[GiveBack], done: Iterable[GivenBack]) -> None:
        """Of these, what was still owned left its executor."""
        entries = {each.acquirement_id: each for each in given}
        for each in done:
            left = entries[each.acquirement_id]
            match left.entry:
                case "released":
                    self.released[left.reason if left.reason in _RELEASES else _OWN_WORDS] += 1
                case "lost":
                    self.lost[left.reason] += 1
                case "fault":
                    self.faults[left.reason if left.reason in fault_codes() else _OTHER] += 1
            self.set_aside += not (each.queued or each.goes_on)

    def latencies(self, method: str, route: str, status: int) -> Latencies:
        """Where the durations of such requests are added up."""
        return self.requests.setdefault((method, route, _STATUS_CLASSES.get(status // 100, _OTHER)), Latencies())


@cache
def fault_codes() -> frozenset[str]:
    """Codes of faults that have a count of their own: an executor may send any, and each would be a series for ever."""
    return frozenset({"not_delivered", *_codes(MinionsError)})


def _codes(kind: type[MinionsError]) -> set[str]:
    return {kind.code}.union(*(_codes(each) for each in kind.__subclasses__()))
