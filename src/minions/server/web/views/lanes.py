"""Lanes: what each executor did for a task over the last hour, one bar a subtask, and why there are gaps; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from minions.domain.discretion import reason_for_teams
from minions.domain.names import public_id
from minions.server.web import texts

if TYPE_CHECKING:
    from minions.store.looking import ExecutorNow, HeldSubtask, LaneEntry

MOST_LANES = 12
_HOUR = timedelta(hours=1)
_LEAST_AXIS = timedelta(seconds=20)
_WIDTH = 100.0  # the axis in per cent
_LEAST_BAR = 0.35
_LEAST_GAP = 3.0
_ENDS = {"done": "done", "failed": "failed", "fault": "failed", "released": "released", "lost": "released",
         "cancelled": "ended"}  # fmt: skip
_WORDS = {
    "second_start": "started a second time",
    "fault": "attempt failed",
    "failed": "set aside",
    "released": "given back",
    "lost": "taken back",
}
LEGEND = {"done": "done", "running": "running", "released": "given or taken back", "failed": "attempt failed",
          "ended": "cancelled"}  # fmt: skip
# Busy may be with another task, or with loading this one's model: nobody wrote down which.
_GAP_WORDS = {
    "busy": "busy, committed nothing here",
    "idle": "idle",
    "paused": "paused",
    "starting": "starting",
    "stopping": "stopping",
    "offline": "offline",
}
_RESTING = ("paused", "stopping", "offline")


@dataclass(frozen=True, slots=True)
class Bar:
    """One subtask on one executor. x, width: in per cent of the axis. look: done, running, released, failed, ended."""

    x: float
    width: float
    look: str
    title: str
    subtask_id: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which an executor committed nothing for the task, and how it was, as far as it is known."""

    x: float
    width: float
    reason: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One executor."""

    executor_id: int
    name: str
    bars: list[Bar]
    gaps: list[Gap]
    summary: str

    @property
    def public_id(self) -> str:
        return public_id("exe", self.executor_id)


@dataclass(frozen=True, slots=True)
class Lanes:
    """begin, until: of the axis. more: executors that are not shown."""

    lanes: list[Lane]
    begin: datetime
    until: datetime
    more: int

    @property
    def legend(self) -> list[tuple[str, str]]:
        """(look, word) of every look that is drawn."""
        drawn = {bar.look for lane in self.lanes for bar in lane.bars}
        return [(look, word) for look, word in LEGEND.items() if look in drawn]


@dataclass(slots=True)
class _Attempt:
    """What one acquirement did."""

    subtask_id: int
    begin: datetime
    end: datetime
    look: str = "done"
    word: str = ""
    reason: str = ""
    rows: int = 0
    failed_rows: int = 0
    is_open: bool = False


@dataclass(slots=True)
class _Line:
    attempts: dict[int | None, _Attempt] = field(default_factory=dict[int | None, _Attempt])


@dataclass(frozen=True, slots=True)
class _Stretch:
    """How an executor was for a while, in words."""

    begin: datetime
    end: datetime
    word: str
    rests: bool


def lanes(
    entries: Sequence[LaneEntry],
    held: Sequence[HeldSubtask],
    executors: Mapping[int, ExecutorNow],
    beats: Mapping[int, Sequence[tuple[datetime, str]]],
    *,
    started: datetime | None,
    until: datetime,
    is_cut: bool,
    is_paused: bool,
    silent_after: timedelta,
) -> Lanes:
    """entries: the newest first. is_cut: there are older ones within the hour, so that the axis begins later.

    is_paused: the task is. silent_after: of who said nothing for so long nobody knows how it was.
    """
    lines = _lines(entries, held, until)
    begin = max(until - _HOUR, min(started or until, until))
    if is_cut and entries:
        begin = max(begin, entries[-1].at)
    begin = min(begin, until - _LEAST_AXIS)
    order = _order(lines, held)
    shown = [
        _lane(
            number,
            lines[number],
            executors.get(number),
            _stretches(beats.get(number, ()), executors.get(number), until, silent_after, is_paused),
            begin,
            until,
        )
        for number in order[:MOST_LANES]
    ]
    return Lanes(sorted(shown, key=lambda lane: _natural(lane.name)), begin, until, max(0, len(order) - MOST_LANES))


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in names in their order: mac-2 before mac-10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"([0-9]+)", name)]


def _lines(entries: Sequence[LaneEntry], held: Sequence[HeldSubtask], until: datetime) -> dict[int, _Line]:
    lines: dict[int, _Line] = {}
    for entry in reversed(entries):
        attempts = lines.setdefault(entry.executor_id, _Line()).attempts
        begin = entry.at - timedelta(seconds=entry.seconds)
        attempt = attempts.setdefault(entry.acquirement_id, _Attempt(entry.subtask_id, begin, entry.at))
        attempt.begin = min(attempt.begin, begin)
        attempt.end = max(attempt.end, entry.at)
        attempt.rows += entry.rows
        attempt.failed_rows += entry.failed_rows
        if entry.entry != "part":
            # A fault that was one too many is followed by `failed`: the last one tells.
            word = _WORDS.get(entry.entry, entry.entry)
            attempt.look, attempt.word, attempt.reason = _ENDS.get(entry.entry, "ended"), word, entry.reason
    for each in held:
        attempts = lines.setdefault(each.executor_id, _Line()).attempts
        known = attempts.get(each.acquirement_id)
        attempts[each.acquirement_id] = _Attempt(
            each.subtask_id,
            min(each.acquired_at, until),
            until,
            "running",
            "running",
            rows=known.rows if known else 0,
            failed_rows=known.failed_rows if known else 0,
            is_open=True,
        )
    return lines


def _order(lines: Mapping[int, _Line], held: Iterable[HeldSubtask]) -> list[int]:
    """Executors at work first, then those who were last."""
    busy = {each.executor_id for each in held}
    latest = {number: max(attempt.end for attempt in line.attempts.values()) for number, line in lines.items()}
    return sorted(lines, key=lambda number: (number in busy, latest[number], -number), reverse=True)


def _lane(
    number: int, line: _Line, now: ExecutorNow | None, known: Sequence[_Stretch], begin: datetime, until: datetime
) -> Lane:
    name = now.name if now else f"executor {number}"
    attempts = sorted(line.attempts.values(), key=lambda each: (each.begin, each.end))
    bars: list[Bar] = []
    gaps: list[Gap] = []
    end, why = begin, ""
    for attempt in attempts:
        if attempt.end < begin:
            why = _left_because(attempt)
            continue
        first = max(attempt.begin, end)
        gaps += _gaps(end, first, why, known, begin, until)
        bars.append(_bar(attempt, _place(first, begin, until), _place(attempt.end, begin, until)))
        end, why = max(end, attempt.end), _left_because(attempt)
    gaps += _gaps(end, until, why, known, begin, until)
    return Lane(number, name, bars, gaps, _summary(name, bars))


def _place(moment: datetime, begin: datetime, until: datetime) -> float:
    share = (moment - begin) / (until - begin)
    return min(max(share, 0.0), 1.0) * _WIDTH


def _bar(attempt: _Attempt, x: float, right: float) -> Bar:
    width = max(right - x, _LEAST_BAR)
    took = texts.took((attempt.end - attempt.begin).total_seconds())
    said = [f"Subtask {attempt.subtask_id}", attempt.word or "committed a part"]
    if attempt.reason:
        said.append(attempt.reason.replace("_", " "))
    if attempt.rows:
        said.append(texts.counted(attempt.rows, "row"))
    if attempt.failed_rows:
        said.append(f"{attempt.failed_rows:,} failed")
    said.append(took)
    return Bar(round(min(x, _WIDTH - width), 2), round(width, 2), attempt.look, " · ".join(said), attempt.subtask_id)


def _gaps(
    first: datetime, last: datetime, why: str, known: Sequence[_Stretch], begin: datetime, until: datetime
) -> list[Gap]:
    """The stretches in between of which something is known: why the executor left, then what it said it was doing."""
    found: list[Gap] = []
    for each in known:
        x, right = (_place(min(max(at, first), last), begin, until) for at in (each.begin, each.end))
        if right - x < _LEAST_GAP:
            continue
        if why and each.rests:
            continue  # that it rests is less than why
        if why:
            _note_gap(found, _place(first, begin, until), x, why)
            why = ""
        _note_gap(found, x, right, each.word)
    if why:
        _note_gap(found, _place(first, begin, until), _place(last, begin, until), why)
    return found


def _note_gap(gaps: list[Gap], x: float, right: float, reason: str) -> None:
    if right - x >= _LEAST_GAP:
        gaps.append(Gap(round(x, 2), round(right - x, 2), reason))


def _left_because(attempt: _Attempt) -> str:
    """Why an executor does nothing after this: only what ended early tells."""
    if attempt.look not in ("released", "failed"):
        return ""
    return attempt.reason.replace("_", " ") or attempt.word


def _stretches(
    beats: Sequence[tuple[datetime, str]],
    now: ExecutorNow | None,
    until: datetime,
    silent_after: timedelta,
    is_paused: bool,
) -> list[_Stretch]:
    """How the executor was, from each heartbeat to the next. Before the first, and in a silence, nobody knows."""
    said = [(at, _GAP_WORDS.get(state, state), state in _RESTING) for at, state in beats if at < until]
    if now is not None and now.since < until:
        # How it is since then is known to this moment, with the reason, as whoever reaches the task may know it.
        word = reason_for_teams(now.state, now.reason) or _GAP_WORDS.get(now.state, now.state)
        if now.state == "idle" and is_paused:
            word = "idle, the task is paused"
        said = [*(each for each in said if each[0] < now.since), (now.since, word, now.state in _RESTING)]
    found: list[_Stretch] = []
    for place, (at, word, rests) in enumerate(said):
        following = said[place + 1][0] if place + 1 < len(said) else until
        is_now = now is not None and at == now.since
        end = following if is_now else min(following, at + silent_after)
        if found and found[-1].word == word and found[-1].end == at:
            found[-1] = _Stretch(found[-1].begin, end, word, rests)
        else:
            found.append(_Stretch(at, end, word, rests))
    return found


def _summary(name: str, bars: Sequence[Bar]) -> str:
    """The lane in words."""
    said = [texts.counted(len(bars), "subtask")]
    for look in ("running", "released", "failed"):
        if number := sum(bar.look == look for bar in bars):
            said.append(f"{number} {LEGEND[look]}")
    return f"{name}: {', '.join(said)}"
