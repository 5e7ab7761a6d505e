"""Lanes: what each executor did for a task over the last hour, one bar a subtask, and why there are gaps; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

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
_WORDS = {"second_start": "started a second time"}
_GAP_WORDS = {
    "busy": "worked for another task",
    "idle": "waited for work",
    "paused": "paused",
    "starting": "was starting",
    "stopping": "was stopping",
    "offline": "was offline",
}


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
    """A stretch in which an executor did nothing for the task, and why."""

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


def lanes(
    entries: Sequence[LaneEntry],
    held: Sequence[HeldSubtask],
    executors: Mapping[int, ExecutorNow],
    beats: Mapping[int, Sequence[tuple[datetime, str]]],
    *,
    started: datetime | None,
    until: datetime,
    is_cut: bool,
) -> Lanes:
    """entries: the newest first. is_cut: there are older ones within the hour, so that the axis begins later."""
    lines = _lines(entries, held, until)
    begin = max(until - _HOUR, min(started or until, until))
    if is_cut and entries:
        begin = max(begin, entries[-1].at)
    begin = min(begin, until - _LEAST_AXIS)
    order = _order(lines, held)
    shown = [
        _lane(number, lines[number], executors.get(number), beats.get(number, ()), begin, until)
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
    number: int,
    line: _Line,
    now: ExecutorNow | None,
    beats: Sequence[tuple[datetime, str]],
    begin: datetime,
    until: datetime,
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
        x = _place(max(attempt.begin, end), begin, until)
        _note_gap(gaps, end, max(attempt.begin, end), why or _told(beats, end, attempt.begin), begin, until)
        bars.append(_bar(attempt, x, _place(attempt.end, begin, until)))
        end, why = max(end, attempt.end), _left_because(attempt)
    _note_gap(gaps, end, until, why or _since(now) or _told(beats, end, until), begin, until)
    return Lane(number, name, bars, gaps, _summary(name, bars))


def _place(moment: datetime, begin: datetime, until: datetime) -> float:
    share = (moment - begin) / (until - begin)
    return min(max(share, 0.0), 1.0) * _WIDTH


def _bar(attempt: _Attempt, x: float, right: float) -> Bar:
    width = max(right - x, _LEAST_BAR)
    took = texts.took((attempt.end - attempt.begin).total_seconds())
    said = [f"Subtask {attempt.subtask_id}", attempt.word or "committed a part"]
    if attempt.reason:
        said.append(attempt.reason)
    if attempt.rows:
        said.append(texts.counted(attempt.rows, "row"))
    if attempt.failed_rows:
        said.append(f"{attempt.failed_rows:,} failed")
    said.append(took)
    return Bar(round(min(x, _WIDTH - width), 2), round(width, 2), attempt.look, " · ".join(said), attempt.subtask_id)


def _note_gap(gaps: list[Gap], first: datetime, last: datetime, reason: str, begin: datetime, until: datetime) -> None:
    x, right = _place(first, begin, until), _place(last, begin, until)
    if right - x >= _LEAST_GAP and reason:
        gaps.append(Gap(round(x, 2), round(right - x, 2), reason))


def _left_because(attempt: _Attempt) -> str:
    """Why an executor does nothing after this: only what ended early tells."""
    match attempt.word:
        case "released" | "lost" | "fault" | "failed":
            return attempt.reason.replace("_", " ") or attempt.word
        case _:
            return ""


def _since(now: ExecutorNow | None) -> str:
    """How the executor is now."""
    if now is None:
        return ""
    return now.reason if now.reason and now.state != "busy" else _GAP_WORDS.get(now.state, now.state)


def _told(beats: Sequence[tuple[datetime, str]], first: datetime, last: datetime) -> str:
    """What the executor said most of the time in between."""
    states = [state for at, state in beats if first <= at <= last]
    if not states:
        return ""
    return _GAP_WORDS.get(max(set(states), key=states.count), "")


def _summary(name: str, bars: Sequence[Bar]) -> str:
    """The lane in words."""
    said = [texts.counted(len(bars), "subtask")]
    for look, word in (("running", "running"), ("released", "given back"), ("failed", "failed")):
        if number := sum(bar.look == look for bar in bars):
            said.append(f"{number} {word}")
    return f"{name}: {', '.join(said)}"
