"""Progress of a task: the segments of its bar; pure."""

from __future__ import annotations

from minions.wire.tasks import TaskView

Segment = tuple[str, float, str]
_ENDED = ("completed", "failed", "cancelled")


def segments(view: TaskView) -> list[Segment]:
    """(look, share of the whole, words) of what is done, failed and under way; the rest waits, or was cancelled."""
    rows = view.rows.ok + view.rows.failed
    failed = view.done_share * view.rows.failed / rows if rows else 0.0
    found: list[Segment] = [
        ("done", view.done_share - failed, f"{view.rows.ok:,} rows done"),
        ("failed", failed, f"{view.rows.failed:,} rows failed"),
    ]
    left = 1.0 - view.done_share
    if view.subtasks.failed:
        set_aside = min(view.subtasks.failed / view.subtasks.total, left)
        left -= set_aside
        found.append(("failed", set_aside, f"{view.subtasks.failed:,} subtasks set aside"))
    if view.state not in _ENDED and view.subtasks.total:
        running = min(view.subtasks.acquired / view.subtasks.total, left)
        found.append(("running", running, f"{view.subtasks.acquired:,} subtasks running"))
    return [segment for segment in found if segment[1] > 0]


def state_of(view: TaskView) -> str:
    """The state that people are told: a paused task is paused whatever else it is."""
    return "paused" if view.paused else view.state


def can(view: TaskView) -> frozenset[str]:
    """What may be done to the task now."""
    found: set[str] = set()
    if view.state not in _ENDED:
        found |= {"cancel", "resume" if view.paused else "pause"}
    elif view.rows.failed or view.subtasks.failed or view.subtasks.cancelled:
        found.add("retry")
    if view.kind != "command" and (view.rows.ok or view.rows.failed):
        found.add("download" if view.state == "completed" else "download_partial")
    return frozenset(found)
