"""What an executor does next, and how long it waits for an engine: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from minions.domain.lifecycle import retry_delay_seconds
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.engines.base import EngineFacts, EngineRequest

Item = TypeVar("Item")

_MEGABYTE = 1e6
_PATIENCE_SECONDS = 120.0
_SECONDS_PER_MEGABYTE = 0.02  # weights that are read from a slow disk while they are first used
_SECONDS_PER_TOKEN = 1.0  # no machine worth lending is slower than a token a second
_SLOWEST_DOWNLOAD_MB_PER_SECOND = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_LONGEST_EXCLUSION_SECONDS = 1800.0
_RETRY_DELAYS = 3


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing until something changes."""


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for one more subtask."""


Step = Rest | Acquire


@dataclass(frozen=True, slots=True)
class World:
    """What the agent sees. feeding: subtasks that still have rows to hand to the engine; working: of the others, those
    with rows that it has not answered; delivering: the rest. hungry: the engine could work on more rows at once.
    stopping: it was told to stop. held: nothing new may begin, for the owner's sake."""

    feeding: int
    working: int
    delivering: int
    stopping: bool
    held: bool = False
    hungry: bool = False


_MOST_BEHIND = 2
_MOST_UNDER_WAY = 64


def next_step(world: World) -> Step:
    """Ask for the next subtask as soon as the last one has handed all its rows to the engine, so that the engine never
    waits for the network; and go on while subtasks are too small to fill it. But do not pile up work that cannot be
    delivered."""
    behind = world.working + world.delivering
    if world.stopping or world.held or world.feeding or world.delivering > _MOST_BEHIND or behind >= _MOST_UNDER_WAY:
        return Rest()
    return Acquire() if world.hungry or behind <= _MOST_BEHIND else Rest()


def stall_limit_seconds(
    facts: EngineFacts, parameters: EmbedParameters | CompleteParameters, longest_gap_seconds: float
) -> float:
    """How long an engine with rows may go without an outcome: by the model's bytes, the length of the replies, and the
    longest gap that was seen so far."""
    by_weights = (facts.weight_bytes or 0) / _MEGABYTE * _SECONDS_PER_MEGABYTE
    by_tokens = parameters.max_tokens * _SECONDS_PER_TOKEN if isinstance(parameters, CompleteParameters) else 0.0
    return max(_PATIENCE_SECONDS + by_weights + by_tokens, 10 * longest_gap_seconds)


def load_limit_seconds(request: EngineRequest) -> float:
    """How long loading may take, the download included; a model whose size is not known gets four hours."""
    if not request.files:
        return 4 * 3600.0
    megabytes = sum(file.size_bytes for file in request.files) / _MEGABYTE
    return 600.0 + megabytes / _SLOWEST_DOWNLOAD_MB_PER_SECOND


class Gaps:
    """The longest time that passed between two outcomes. A gap counts when it is over: one that still lasts must not
    excuse itself."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._current_seconds = 0.0

    def look(self, stalled_seconds: float) -> None:
        """Note how long the engine has been silent by now."""
        if stalled_seconds < self._current_seconds:
            self.longest_seconds = max(self.longest_seconds, self._current_seconds)
        self._current_seconds = stalled_seconds


def halves(items: Sequence[Item]) -> list[list[Item]]:
    """Two halves, or the one item."""
    middle = len(items) // 2
    return [list(half) for half in (items[:middle], items[middle:]) if half]


def exclusion_seconds(failures: int, attempt: int | None) -> float:
    """How long an executor leaves a task alone after its `failures`-th failure there (1, 2, …).

    attempt: that of the subtask that failed, from 1; None when it was given back without one. It goes to somebody else
    first, if there is anybody: this executor stays away for longer than the subtask waits, or one broken machine would
    use up all attempts while the others are busy. One that is alone comes to the third after a minute and a quarter.
    """
    own = min(5.0 * 4.0 ** min(failures - 1, 10), _LONGEST_EXCLUSION_SECONDS)
    return own if attempt is None else max(own, _RETRY_DELAYS * retry_delay_seconds(attempt))


def pause_seconds(failed: int, chance: float) -> float:
    """How long to wait after the `failed`-th failure in a row (1, 2, …); chance in [0, 1) spreads the executors.

    Without the spread, all executors of an office would come back in the same moment after an outage.
    """
    return min(0.25 * 2.0 ** min(failed, 10), _LONGEST_PAUSE_SECONDS) * (0.5 + chance / 2)
