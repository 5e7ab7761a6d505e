"""The last day, added up once and kept up to date: what came since the last look is all that is read again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from minions.domain.errors import Unavailable
from minions.store import history
from minions.store.database import Database
from minions.store.history import Moment, Work

log = logging.getLogger(__name__)

MOMENT_SECONDS: Final = 300
DAY_SECONDS: Final = 86400
_FRESH_SECONDS: Final = 4.0
_TRUE_SECONDS: Final = 300.0  # a chart has a point for each five minutes that are over: one is missing then at most


@dataclass(frozen=True, slots=True)
class Pace:
    """What was done from one moment on: rows, failed rows among them, and subtasks."""

    rows: int = 0
    failed_rows: int = 0
    done: int = 0

    def __add__(self, other: Pace) -> Pace:
        return Pace(self.rows + other.rows, self.failed_rows + other.failed_rows, self.done + other.done)


@dataclass(frozen=True, slots=True)
class Record:
    """What an executor did: rows, seconds of work in its engine, and what became of the subtasks that it took."""

    rows: int = 0
    seconds: float = 0.0
    done: int = 0
    released: int = 0
    lost: int = 0
    faults: int = 0

    def __add__(self, other: Record) -> Record:
        return Record(
            self.rows + other.rows,
            self.seconds + other.seconds,
            self.done + other.done,
            self.released + other.released,
            self.lost + other.lost,
            self.faults + other.faults,
        )

    @property
    def released_share(self) -> float | None:
        """How many of the subtasks that it took it gave back; None when it took none."""
        taken = self.done + self.released + self.lost + self.faults
        return self.released / taken if taken else None


class History:
    """Sums of one day. The first reading may take seconds where millions of parts lie; until then it is not ready, and
    neither is it after a while in which nobody asked."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._reading = asyncio.Lock()
        self._read_at: float | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._since = self._work_since = datetime.fromtimestamp(0, UTC)
        self._settled: dict[tuple[int, str], Pace] = {}
        self._recent: dict[tuple[int, str], Pace] = {}
        self._worked: dict[tuple[int, int], Record] = {}
        self._working: dict[tuple[int, int], Record] = {}

    @property
    def is_ready(self) -> bool:
        """Whether it was read lately. What came since a reading of long ago would show as hours without work."""
        return self._read_at is not None and self._monotonic() - self._read_at < _TRUE_SECONDS

    async def refresh(self) -> None:
        """Read what came since. Those who ask together wait for one reading."""
        async with self._reading:
            if self._read_at is not None and self._monotonic() - self._read_at < _FRESH_SECONDS:
                return
            async with self._database.connection() as connection:
                moments, mark = await history.rows_by_moment(connection, self._since)
                work, work_mark = await history.work_by_executor(connection, self._work_since)
            self._since, self._work_since = mark or self._since, work_mark or self._work_since
            self._add(moments, work)
            self._forget(datetime.now(UTC) - timedelta(seconds=DAY_SECONDS + MOMENT_SECONDS))
            self._read_at = self._monotonic()

    def refresh_soon(self) -> None:
        """Do it beside what goes on, unless that is going on or not needed: a page must not wait for it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_quietly())

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except Unavailable as error:
            log.warning("history: %s", error)

    def paces(self, teams: Sequence[str] | None) -> dict[int, Pace]:
        """What was done in the tasks of these teams (None: all), by moment."""
        found: dict[int, Pace] = defaultdict(Pace)
        for cells in (self._settled, self._recent):
            for (moment, team), pace in cells.items():
                if teams is None or team in teams:
                    found[moment] += pace
        return dict(found)

    def records(self, executors: Iterable[int]) -> dict[int, Record]:
        """What these executors did in the last day."""
        wanted = set(executors)
        found: dict[int, Record] = defaultdict(Record)
        for cells in (self._worked, self._working):
            for (_, executor_id), record in cells.items():
                if executor_id in wanted:
                    found[executor_id] += record
        return dict(found)

    def _add(self, moments: Sequence[Moment], work: Sequence[Work]) -> None:
        self._recent, self._working = {}, {}
        for each in moments:
            cells, key = self._settled if each.settled else self._recent, (each.moment, each.team)
            cells[key] = cells.get(key, Pace()) + Pace(each.rows, each.failed_rows, each.done)
        for each in work:
            records, place = self._worked if each.settled else self._working, (each.hour, each.executor_id)
            done = Record(each.rows, each.seconds, each.done, each.released, each.lost, each.faults)
            records[place] = records.get(place, Record()) + done

    def _forget(self, before: datetime) -> None:
        edge = before.timestamp()
        self._settled = {key: pace for key, pace in self._settled.items() if key[0] >= edge}
        self._worked = {key: record for key, record in self._worked.items() if key[0] >= edge - 3600}


def throughput(paces: dict[int, Pace], now: datetime) -> list[tuple[datetime, float]]:
    """Rows a second over the last day, a point for each five minutes that are over; pure."""
    last = int(now.timestamp()) // MOMENT_SECONDS * MOMENT_SECONDS
    moments = range(last - DAY_SECONDS, last, MOMENT_SECONDS)
    return [
        (datetime.fromtimestamp(moment, UTC), round(paces.get(moment, Pace()).rows / MOMENT_SECONDS, 2))
        for moment in moments
    ]


def done_rate(paces: dict[int, Pace], now: datetime, seconds: int) -> float:
    """Subtasks done a second over about so many seconds; pure. A deployment that began later is not slower for it."""
    begin = (int(now.timestamp()) - seconds) // MOMENT_SECONDS * MOMENT_SECONDS
    within = {moment: pace for moment, pace in paces.items() if moment >= begin and pace.done}
    if not within:
        return 0.0
    return sum(pace.done for pace in within.values()) / max(60.0, now.timestamp() - min(within))
