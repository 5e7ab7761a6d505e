"""How far a run is: counted as jobs end, with rates and an estimate from nothing but what was measured. Pure."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from minions.domain.eta import drain_seconds
from minions.hosts.status import MOST_TOLD, Failure

_RATE_SECONDS = 300.0
_LEAST_SECONDS = 5.0  # a rate over less is noise
_SPANS_SECONDS = (60.0, 300.0)


@dataclass(slots=True)
class RunProgress:
    """jobs: places that the run is about. skipped: those of them that were done before it began."""

    jobs: frozenset[int]
    skipped: frozenset[int]
    began: float
    done: set[int] = field(default_factory=set[int])
    failures: dict[int, Failure] = field(default_factory=dict[int, Failure])
    by_host: dict[str, int] = field(default_factory=dict[str, int])
    _ends: deque[tuple[float, str]] = field(default_factory=deque[tuple[float, str]])
    _measured: int = 0

    @property
    def left(self) -> int:
        return len(self.jobs) - len(self.skipped) - len(self.done) - len(self.failures)

    @property
    def is_complete(self) -> bool:
        """Whether each job has an end."""
        return self.left == 0

    def finish(self, place: int, host: str | None, now: float) -> None:
        """A job's output lies in its place. host None: it was only fetched, which tells nothing of rates."""
        if place in self.done:
            return
        self.done.add(place)
        self.failures.pop(place, None)
        if host is not None:
            self._measured += 1
            self.by_host[host] = self.by_host.get(host, 0) + 1
            self._ends.append((now, host))
        while self._ends and self._ends[0][0] < now - _RATE_SECONDS:
            self._ends.popleft()

    def fail(self, place: int, failure: Failure) -> None:
        """A job was given up."""
        if place not in self.done:
            self.failures[place] = failure

    def per_minute(self, host: str, now: float) -> float | None:
        """Jobs that a host finished a minute, lately; None while that is not measured."""
        span = min(now - self.began, _RATE_SECONDS)
        ended = sum(1 for at, who in self._ends if who == host and at >= now - span)
        return ended * 60.0 / span if ended and span >= _LEAST_SECONDS else None

    def remaining_seconds(self, now: float, slots: int) -> tuple[int, int] | None:
        """(low, high), or None before every slot can have shown how long a job takes."""
        running = now - self.began
        if self.left == 0 or running < _LEAST_SECONDS or self._measured < max(slots, 1):
            return None
        rates = [self._measured / running]
        for span in _SPANS_SECONDS:
            if running > span:
                rates.append(sum(1 for at, _ in self._ends if at >= now - span) / span)
        return drain_seconds(self.left, rates)

    def failed_by(self) -> tuple[tuple[str, int], ...]:
        """How many were given up for which reason, the most frequent first."""
        return tuple(Counter(failure.reason for failure in self.failures.values()).most_common(MOST_TOLD))

    def told_failures(self) -> tuple[Failure, ...]:
        """The first of them, by their places."""
        return tuple(self.failures[place] for place in sorted(self.failures)[:MOST_TOLD])
