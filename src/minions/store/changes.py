"""What changed lately, for pages that are open: one cheap statement for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.store.database import Connection, one_of


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a look saw: the newest entry of the ledger, the newest acquirement, and when, by the database's clock."""

    ledger_id: int
    acquirement_id: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. open_tasks, watched: prints that differ when a task's own row does.

    silent: executors of which nobody has written down that they are offline.
    """

    seen: Seen
    tasks: frozenset[int]
    executors: frozenset[int]
    open_tasks: int
    watched: dict[int, int]
    silent: frozenset[int] = frozenset()


async def look_for_changes(
    connection: Connection,
    since: Seen | None,
    *,
    watched: Sequence[int],
    silent: frozenset[int] | None = None,
) -> Look:
    """What became of subtasks and executors since an earlier look; None: nothing, only how far it goes now.

    watched: tasks whose own rows are looked at. silent: those that are known to be, who are then not looked for: this
    costs as much as all the rest.
    """
    row = await one_of(
        connection,
        "what_changed",
        since.ledger_id if since else None,
        since.acquirement_id if since else None,
        list(watched),
        since.at if since else None,
        silent is None,
    )
    assert row is not None
    return Look(
        seen=Seen(row["ledger_id"], row["acquirement_id"], row["at"]),
        tasks=frozenset(row["tasks"]),
        executors=frozenset(row["executors"]),
        silent=frozenset(row["silent"]) if silent is None else silent,
        open_tasks=row["open_tasks"],
        watched=dict(zip(row["watched"], row["prints"], strict=True)),
    )
