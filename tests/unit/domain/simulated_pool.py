"""A simulated pool: the machines of many owners work off one batch under the real policy, in simulated time."""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from minions.domain.policy import RUNNING, Order, OwnerPolicy, Standing, State, decide
from tests.unit.domain.simulated_owner import DAY, Life, gaps, hours, overlap

LOOK_SECONDS = 0.5
QUIET_SECONDS = {State.BUSY: 60.0, State.DRAINING: 60.0, State.SUSPENDED: LOOK_SECONDS}
_QUIETEST_SECONDS = 600.0  # everything else begins with an event
STOP_SECONDS = 2.0
PART_SECONDS = 60.0
LEASE_SECONDS = 90.0
LOAD_SECONDS = 15.0
UNLOAD_SECONDS = 1.0
SUBTASK_ROWS = 6_000
_WATCHED_LOOKS = 8  # after something happened, so many looks follow at full rate


@dataclass(slots=True)
class Batch:
    """A queue of subtasks with fenced commits, as the server has one. Times are those of the simulation."""

    subtasks: int
    cursors: list[int] = field(init=False)
    waiting: deque[int] = field(init=False)
    owners: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])
    fence: int = 0
    doubled_rows: int = 0

    def __post_init__(self) -> None:
        self.cursors = [0] * self.subtasks
        self.waiting = deque(range(self.subtasks))

    def acquire(self, at: float) -> tuple[int, int] | None:
        """(subtask, acquirement), or None when nothing waits."""
        if not self.waiting:
            return None
        subtask, self.fence = self.waiting.popleft(), self.fence + 1
        self.owners[subtask] = (self.fence, at)
        return subtask, self.fence

    def beat(self, subtask: int, acquirement: int, at: float) -> bool:
        """A sign of life; False when the subtask was handed on."""
        if self.owners.get(subtask, (0, 0.0))[0] != acquirement:
            return False
        self.owners[subtask] = (acquirement, at)
        return True

    def commit(self, subtask: int, acquirement: int, start: int, end: int) -> bool:
        """Rows [start, end) are done, if they are still this acquirement's to do."""
        if self.owners.get(subtask, (0, 0.0))[0] != acquirement:
            return False
        self.doubled_rows += max(self.cursors[subtask] - start, 0)
        self.cursors[subtask] = end
        if end == SUBTASK_ROWS:
            del self.owners[subtask]
        return True

    def release(self, subtask: int, acquirement: int) -> None:
        """Give it back."""
        if self.owners.get(subtask, (0, 0.0))[0] == acquirement:
            del self.owners[subtask]
            self.waiting.appendleft(subtask)

    def watch(self, at: float) -> None:
        """Take subtasks from those who are silent."""
        silent = [subtask for subtask, (_, seen) in self.owners.items() if at - seen > LEASE_SECONDS]
        for subtask in silent:
            self.release(subtask, self.owners[subtask][0])

    @property
    def lost_rows(self) -> int:
        """Rows that were not committed."""
        return self.subtasks * SUBTASK_ROWS - sum(self.cursors)


@dataclass(slots=True)
class Machine:
    """One executor: acts on the decisions as the agent does, with the times that acting takes."""

    life: Life
    policy: OwnerPolicy
    rows_per_second: float
    phase: float
    standing: Standing = field(default_factory=Standing)
    held: tuple[int, int] | None = None
    loaded_at: float | None = None  # in the future while the model is being loaded
    unloaded_at: float | None = None
    computed_to: float = 0.0
    rows: float = 0.0
    part_begin: int = 0
    part_at: float = 0.0
    seen: float = -1.0
    watched: int = 0
    worked: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    trail: list[tuple[float, State, str]] = field(default_factory=list[tuple[float, State, str]])
    edges: list[float] = field(init=False)

    def __post_init__(self) -> None:
        """When to look: just before and after each change, and when hysteresis is over."""
        life, policy = self.life, self.policy
        spells = (life.hot, life.on_battery, life.program, life.disk_full, life.short_of_memory)
        lasting = [end + policy.hysteresis_seconds for spell in spells for _, end in spell]
        changes = [*life.edges(), *hours(policy.schedule)]
        self.edges = sorted([*lasting, *changes, *(change - LOOK_SECONDS for change in changes)])

    def look(self, at: float, batch: Batch) -> float:
        """One turn of the agent's loop. Returns when the next one is."""
        self._compute(at, batch)
        if self.unloaded_at is not None and at >= self.unloaded_at:
            self.loaded_at = self.unloaded_at = None
        facts = self.life.facts(at, is_working=self.held is not None, is_loaded=self.loaded_at is not None)
        decision = decide(self.policy, facts, Order(), self.standing)
        if decision.slept_seconds and self.held is not None and not batch.beat(*self.held, at):
            self.held = None
        if decision.state is not self.standing.state:
            self.watched = 0 if decision.may_acquire else _WATCHED_LOOKS
            self.trail.append((at, decision.state, decision.reasons[0].text if decision.reasons else ""))
        self.standing = decision.standing
        if decision.state is State.EVICTING and self.unloaded_at is None:
            self._give_back(batch)
            self.unloaded_at = at + UNLOAD_SECONDS
        if decision.state in (State.READY, State.BUSY) and self.held is None:
            self._acquire(at, batch)
        return self._next_look(at)

    def _acquire(self, at: float, batch: Batch) -> None:
        self.held = batch.acquire(at)
        if self.held is None:
            return
        self.rows = self.part_begin = batch.cursors[self.held[0]]
        self.part_at = self.computed_to = at
        self.watched = 1
        if self.loaded_at is None:
            self.loaded_at = at + LOAD_SECONDS

    def _give_back(self, batch: Batch) -> None:
        if self.held is not None:
            batch.release(*self.held)
        self.held = None

    def _compute(self, at: float, batch: Batch) -> None:
        """Bring the rows up to now. A commit happens at the look after it is due."""
        begin, self.computed_to = self.computed_to, at
        if self.held is None or self.loaded_at is None or self.standing.state not in RUNNING:
            return
        begin = max(begin, self.loaded_at)
        if at <= begin or any(begin < asleep_to and asleep_at < at for asleep_at, asleep_to in self.life.asleep):
            return
        needed = begin + (SUBTASK_ROWS - self.rows) / self.rows_per_second
        end = min(at, needed)
        self.worked.append((begin, end))
        self.rows += (end - begin) * self.rows_per_second
        finished = end == needed
        subtask, acquirement = self.held
        owned = batch.beat(subtask, acquirement, at)
        if owned and (finished or at - self.part_at >= PART_SECONDS):
            row = SUBTASK_ROWS if finished else int(self.rows)
            owned = batch.commit(subtask, acquirement, self.part_begin, row)
            self.part_begin, self.part_at = row, at
        if finished or not owned:
            self.held = None

    def _next_look(self, at: float) -> float:
        """Often while something happens; while nothing can, as late as something may."""
        if self.standing.state is State.EVICTING or self.watched > 0:
            self.watched -= 1
            following = at + LOOK_SECONDS
        else:
            following = self._next_event(at)
        for asleep_at, asleep_to in self.life.asleep:
            if asleep_at <= following < asleep_to:
                return asleep_to + LOOK_SECONDS
        return following

    def _next_event(self, at: float) -> float:
        """The first look at which the facts may be others."""
        life, quiet = self.life, at + QUIET_SECONDS.get(self.standing.state, _QUIETEST_SECONDS)
        place = bisect_right(self.edges, at)
        events = self.edges[place : place + 1]
        last = bisect_right(life.resets, at) - 1
        if last >= 0:
            events.append(life.resets[last] + self.policy.start_after_idle_minutes * 60)
        if self.standing.state not in (State.WAITING, State.OFF):
            events.append(life.next_reset(at))
        if self.held is not None and self.loaded_at is not None:
            begin = max(self.computed_to, self.loaded_at)
            events.append(begin + (SUBTASK_ROWS - self.rows) / self.rows_per_second)
        event = min((event for event in events if event > at), default=quiet)
        if event >= quiet:
            return quiet
        self.watched = max(self.watched, 4)
        return max(event + self.phase, at + LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Week:
    """What came of it. used_share: of the time that owners allowed while the queue was not empty, the part in which
    rows were computed. forbidden_seconds: computing in other time, past the STOP_SECONDS that stopping may take."""

    used_share: float
    rows_lost: int
    rows_doubled: int
    forbidden_seconds: float
    allowed_hours: float
    finished_after_hours: float


def run_pool(lives: Sequence[Life], policies: Sequence[OwnerPolicy], subtasks: int, until: float) -> Week:
    """Drive all machines through the same batch, until the time is over."""
    chance, batch = random.Random(7), Batch(subtasks)
    machines = [
        Machine(life, policy, chance.uniform(4, 20), chance.uniform(0, LOOK_SECONDS))
        for life, policy in zip(lives, policies, strict=True)
    ]
    agenda = [(machine.phase, number) for number, machine in enumerate(machines)]
    heapq.heapify(agenda)
    watched_at, emptied_at = 0.0, until
    while agenda and agenda[0][0] < until:
        at, number = heapq.heappop(agenda)
        if at - watched_at > 10:
            batch.watch(at)
            watched_at = at
        heapq.heappush(agenda, (machines[number].look(at, batch), number))
        if not batch.waiting and emptied_at == until:
            emptied_at = at
    return _counted(machines, batch, emptied_at, until)


def _counted(machines: Sequence[Machine], batch: Batch, emptied_at: float, until: float) -> Week:
    allowed_seconds = used = forbidden = 0.0
    for machine in machines:
        free = gaps(machine.life.forbidden(machine.policy, until), until)
        tolerated = [(begin, end + STOP_SECONDS) for begin, end in free]
        allowed_seconds += overlap(free, 0, emptied_at)
        for begin, end in machine.worked:
            used += overlap(free, begin, min(end, emptied_at))
            forbidden += (end - begin) - overlap(tolerated, begin, end)
    return Week(
        used_share=used / allowed_seconds,
        rows_lost=batch.lost_rows,
        rows_doubled=batch.doubled_rows,
        forbidden_seconds=forbidden,
        allowed_hours=allowed_seconds / 3600,
        finished_after_hours=emptied_at / DAY * 24,
    )
