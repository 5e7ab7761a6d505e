"""A simulated owner: when somebody uses a machine, and what becomes of it meanwhile; pure and deterministic."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from minions.domain.policy import Facts, OwnerPolicy, Pressure, Schedule, Thermal

MONDAY = datetime(2026, 10, 18, 22, tzinfo=UTC)  # 00:00 in Berlin; on the Sunday of this week summer time ends
ZONE = ZoneInfo("Europe/Berlin")
HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Life:
    """All that happens at one machine, in seconds since MONDAY.

    inputs: what a person does, sorted. phantoms: when the idle counter resets by itself. asleep: the machine sleeps.
    told: whether it says so two seconds before. The others are spells: [begin, end).
    """

    inputs: Sequence[float] = (-DAY,)
    phantoms: Sequence[float] = ()
    asleep: Sequence[Interval] = ()
    told: bool = True
    on_battery: Sequence[Interval] = ()
    hot: Sequence[Interval] = ()
    short_of_memory: Sequence[Interval] = ()
    disk_full: Sequence[Interval] = ()
    program: Sequence[Interval] = ()
    unreadable: Sequence[Interval] = ()
    resets: Sequence[float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resets", sorted([*self.inputs, *self.phantoms]))

    def facts(self, at: float, *, is_working: bool = False, is_loaded: bool = False) -> Facts:
        """What the probes find."""
        readable = not inside(self.unreadable, at)
        last = bisect_right(self.resets, at) - 1
        return Facts(
            now=local(at),
            is_working=is_working,
            is_loaded=is_loaded,
            idle_seconds=at - self.resets[last] if readable and last >= 0 else None,
            on_battery=inside(self.on_battery, at) if readable else None,
            battery_percent=80.0,
            thermal=Thermal.SERIOUS if inside(self.hot, at) else Thermal.NOMINAL,
            pressure=Pressure.WARNING if inside(self.short_of_memory, at) else Pressure.NORMAL,
            metered=False,
            programs=frozenset({"Game"} if inside(self.program, at) else ()),
            disk_free_bytes=10**9 if inside(self.disk_full, at) else 10**11,
            about_to_sleep=any(0 <= begin - at < 2 for begin, _ in self.asleep) if self.told else None,
            machine="Mac",
        )

    def next_reset(self, after: float) -> float:
        """When the idle counter starts anew next."""
        place = bisect_right(self.resets, after)
        return self.resets[place] if place < len(self.resets) else WEEK * 2

    def edges(self) -> list[float]:
        """When something other than the idle counter changes."""
        spells = (self.on_battery, self.hot, self.short_of_memory, self.disk_full, self.program, self.unreadable)
        early = [begin - 2 for begin, _ in self.asleep]
        return sorted({edge for each in (*spells, self.asleep) for pair in each for edge in pair} | set(early))

    def forbidden(self, policy: OwnerPolicy, until: float) -> list[Interval]:
        """When the owner does not want any work, said without the code under test: merged and sorted."""
        idle = policy.start_after_idle_minutes * 60
        minutes = (60.0 * number for number in range(int(until / 60) + 1)) if policy.schedule.spans else ()
        closed = [(minute, minute + 60) for minute in minutes if not policy.schedule.is_open(local(minute))]
        program = self.program if policy.excluding_programs else ()
        spells = (self.asleep, self.on_battery, self.hot, self.short_of_memory, self.disk_full, program)
        return merged([*((each, each + idle) for each in self.inputs), *closed, *(i for each in spells for i in each)])


def local(at: float) -> datetime:
    """The moment as the machine's own clock says it."""
    return (MONDAY + timedelta(seconds=at)).astimezone(ZONE)


def hours(schedule: Schedule) -> list[float]:
    """When in the week the schedule opens and closes."""
    found: list[float] = []
    at = schedule.next_change(local(0.0))
    while at is not None and at.timestamp() < (MONDAY + timedelta(days=7)).timestamp():
        found.append(at.timestamp() - MONDAY.timestamp())
        at = schedule.next_change(at)
    return found


def inside(intervals: Sequence[Interval], at: float) -> bool:
    """Whether the moment lies in one of the sorted intervals."""
    place = bisect_right(intervals, (at, float("inf"))) - 1
    return place >= 0 and intervals[place][0] <= at < intervals[place][1]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments in as few intervals as possible, sorted."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def gaps(intervals: Sequence[Interval], until: float) -> list[Interval]:
    """What merged intervals leave free of [0, until)."""
    edges = [0.0, *(min(max(edge, 0.0), until) for pair in intervals for edge in pair), until]
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]


def overlap(intervals: Sequence[Interval], begin: float, end: float) -> float:
    """Seconds of [begin, end) that lie in the merged intervals."""
    place = max(bisect_left(intervals, (begin, begin)) - 1, 0)
    total = 0.0
    while place < len(intervals) and intervals[place][0] < end:
        total += max(min(end, intervals[place][1]) - max(begin, intervals[place][0]), 0.0)
        place += 1
    return total


def typing(chance: random.Random, begin: float, end: float) -> list[float]:
    """A person at work: bursts of input, and pauses to read or to talk that are seldom as long as five minutes."""
    found: list[float] = []
    at = begin
    while at < end:
        for _ in range(chance.randint(3, 40)):
            found.append(at)
            at += chance.uniform(0.1, 1.5)
        at += chance.expovariate(1 / 40)
    return found


def any_life(number: int) -> Life:
    """The week of one owner out of many: office laptops, desktops that are never off, and machines for games."""
    chance = random.Random(number)
    is_laptop = chance.random() < 0.7
    inputs: list[float] = [-chance.uniform(600, DAY)]
    asleep: list[Interval] = []
    battery: list[Interval] = []
    program: list[Interval] = []
    for day in range(7):
        if day > 4 and chance.random() < 0.5:
            continue
        arrives, lunch, leaves = (day * DAY + chance.gauss(hour, 0.7) * HOUR for hour in (9, 12.5, 18))
        inputs += typing(chance, arrives, lunch) + typing(chance, lunch + HOUR, leaves)
        if is_laptop and chance.random() < 0.5:
            begin = chance.uniform(arrives, leaves)
            battery.append((begin, begin + chance.uniform(0.3, 3) * HOUR))
        if chance.random() < 0.3:  # somebody looks something up in the evening
            evening = leaves + chance.uniform(0.5, 3) * HOUR
            inputs += typing(chance, evening, evening + chance.uniform(0.05, 0.7) * HOUR)
            program += [(evening, evening + 2 * HOUR)] if chance.random() < 0.3 else []
        if is_laptop and chance.random() < 0.5:
            asleep.append((leaves + 4 * HOUR, (day + 1) * DAY + 7 * HOUR))
    return Life(
        inputs=sorted(inputs),
        phantoms=sorted(chance.uniform(0, WEEK) for _ in range(chance.randint(2, 12))),
        asleep=merged(asleep),
        told=chance.random() < 0.7,
        on_battery=merged(battery),
        hot=_spells(chance, 6, 300),
        short_of_memory=_spells(chance, 4, 200),
        disk_full=_spells(chance, 1, 4 * HOUR),
        program=merged(program),
        unreadable=_spells(chance, 5, 20),
    )


def _spells(chance: random.Random, at_most: int, mean_seconds: float) -> list[Interval]:
    begins = [chance.uniform(0, WEEK) for _ in range(chance.randint(0, at_most))]
    return merged((begin, begin + 1 + chance.expovariate(1 / mean_seconds)) for begin in begins)
