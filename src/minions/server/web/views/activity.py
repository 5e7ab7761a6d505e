"""What became of a task's subtasks, in sentences; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minions.server.web import texts

if TYPE_CHECKING:
    from minions.store.looking import ActivityEntry

REASONS = {
    "owners_lost": "its executors fell silent too often",
    "no sign of life": "the executor fell silent",
    "overtaken": "its second start ended first",
}


def reason_text(reason: str) -> str:
    """A reason as people read it; codes lose their underscores."""
    return REASONS.get(reason) or (reason.replace("_", " ") if " " not in reason else reason)


def sentence(entry: ActivityEntry) -> str:
    """What one entry says beside its subtask and executor."""
    match entry.entry:
        case "part":
            said = f"committed {texts.counted(entry.rows, 'row')} in {texts.took(entry.seconds)}"
            return said + (f", {entry.failed_rows:,} failed" if entry.failed_rows else "")
        case "done":
            return "every row has an outcome"
        case "second_start":
            return "started a second time, since it has run longest; the first to end counts"
        case "released":
            return f"given back: {reason_text(entry.reason)}"
        case "lost":
            return f"taken back: {reason_text(entry.reason)} (loss {entry.losses})"
        case "fault":
            return f"could not be done: {reason_text(entry.reason)} (attempt {entry.attempt})"
        case "failed":
            return f"set aside: {reason_text(entry.reason)}" if entry.reason else "set aside"
        case "retried":
            return f"to be run again, {entry.reason}" if entry.reason else "to be run again"
        case "cancelled":
            return entry.reason or "cancelled"
        case _:
            return reason_text(entry.reason)
