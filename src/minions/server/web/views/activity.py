"""What became of a task's subtasks, in sentences; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from minions.server.web import texts

if TYPE_CHECKING:
    from minions.store.looking import ActivityEntry

_TOGETHER = timedelta(milliseconds=100)
REASONS = {
    "owners_lost": "its executors fell silent too often",
    "no sign of life": "the executor fell silent",
    "overtaken": "its second start ended first",
}


def reason_text(reason: str) -> str:
    """A reason as people read it; codes lose their underscores."""
    return REASONS.get(reason) or (reason.replace("_", " ") if " " not in reason else reason)


def entry_state(entry: str) -> str:
    """The state that an entry is told as: a subtask is set aside, a task has failed."""
    return "set_aside" if entry == "failed" else entry


def in_order(entries: Sequence[ActivityEntry]) -> list[ActivityEntry]:
    """The latest first, with the end of a subtask after its last part: one statement writes both, in either order."""
    found = list(entries)
    for place in range(len(found) - 1):
        later, earlier = found[place], found[place + 1]
        same = (later.subtask_id, later.executor_id) == (earlier.subtask_id, earlier.executor_id)
        if same and (later.entry, earlier.entry) == ("part", "done") and later.at - earlier.at < _TOGETHER:
            found[place], found[place + 1] = earlier, later
    return found


def sentence(entry: ActivityEntry, ended_because: str = "") -> str:
    """What one entry says beside its state, subtask and executor. ended_because: what the task's end says already."""
    match entry.entry:
        case "part":
            said = f"{texts.counted(entry.rows, 'row')} in {texts.took(entry.seconds)}"
            return said + (f", {entry.failed_rows:,} failed" if entry.failed_rows else "")
        case "done":
            return "every row has an outcome"
        case "second_start":
            return "since it has run longest; the first to end counts"
        case "released":
            return reason_text(entry.reason)
        case "lost":
            return f"{reason_text(entry.reason)} (loss {entry.losses})"
        case "fault":
            return f"{reason_text(entry.reason)} (attempt {entry.attempt})"
        case "cancelled" if entry.reason == ended_because:
            return "with the task"
        case "failed" | "retried" | "cancelled" | _:
            return reason_text(entry.reason)
