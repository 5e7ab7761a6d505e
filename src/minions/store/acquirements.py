"""Acquirements: who works on which subtask, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.lifecycle import MAX_ATTEMPTS, MAX_LOSSES, OTHERS_FIRST_SECONDS, RetryOf
from minions.domain.names import TaskName
from minions.domain.subtask import Acquired, GiveBack, GivenBack, PartCommit
from minions.store.database import LOCKED, Connection, Record, all_of, one_of


async def acquire_from_lanes(
    connection: Connection, executors: Sequence[int], lanes: Sequence[str], exclude: Sequence[int]
) -> list[Acquired]:
    """The oldest waiting subtasks of these lanes, at most one for each entry of `executors`."""
    rows = await all_of(connection, "acquire_from_lanes", list(executors), list(lanes), list(exclude))
    return [acquired_of(row) for row in rows]


async def acquire_after_racer(
    connection: Connection, executors: Sequence[int], lanes: Sequence[str], exclude: Sequence[int]
) -> list[Acquired]:
    """The same, but what a racer has locked at the head is waited for, for a moment. Not in a transaction."""
    try:
        async with connection.transaction():
            await one_of(connection, "lock_head", list(lanes), list(exclude), list(executors))
            return await acquire_from_lanes(connection, executors, lanes, exclude)
    except LOCKED:
        return []


async def acquire_from_tasks(connection: Connection, executors: Sequence[int], tasks: Sequence[int]) -> list[Acquired]:
    """Waiting subtasks of these tasks, in the order of the tasks."""
    rows = await all_of(connection, "acquire_from_tasks", list(executors), list(tasks))
    return [acquired_of(row) for row in rows]


async def commit_parts(connection: Connection, parts: Sequence[PartCommit]) -> dict[int, tuple[int, int]]:
    """Accept what is still owned and fits. Returns (task_id, subtask_id) by acquirement, of those accepted.

    Each acquirement may occur once in `parts`.
    """
    rows = await all_of(
        connection,
        "commit_parts",
        [part.acquirement_id for part in parts],
        [part.executor_id for part in parts],
        [part.start for part in parts],
        [part.end for part in parts],
        [part.final for part in parts],
        [part.rows for part in parts],
        [part.failed_rows for part in parts],
        [part.truncated_rows for part in parts],
        [part.key for part in parts],
        [part.sha256 for part in parts],
        [part.size_bytes for part in parts],
        [part.input_bytes for part in parts],
        [part.input_tokens for part in parts],
        [part.output_tokens for part in parts],
        [part.seconds for part in parts],
        [part.detail for part in parts],
        [part.task_id for part in parts],
        [part.subtask_id for part in parts],
    )
    return {row["acquirement_id"]: (row["task_id"], row["subtask_id"]) for row in rows}


async def was_committed(connection: Connection, part: PartCommit) -> bool:
    """Whether this very part was accepted before, so that a repeated call gets the same answer."""
    row = await one_of(
        connection, "find_part", part.task_id, part.subtask_id, part.start, part.acquirement_id, part.executor_id
    )
    return row is not None and row["sha256"] == part.sha256 and row["part_end"] == part.end


async def give_back(connection: Connection, subtasks: Sequence[GiveBack]) -> list[GivenBack]:
    """Return subtasks to the queue, or set them aside at the bound. What is not owned any more is left alone.

    A subtask that runs in a second place stays with that one; a second start that is given back leaves the owner alone.
    """
    done = await _give_back(connection, subtasks)
    if len(done) < len(subtasks):
        # What became an owner while the statement waited was none to it: it is one to the next.
        found = {each.acquirement_id for each in done}
        done += await _give_back(connection, [each for each in subtasks if each.acquirement_id not in found])
    return done


async def _give_back(connection: Connection, subtasks: Sequence[GiveBack]) -> list[GivenBack]:
    if not subtasks:
        return []
    rows = await all_of(
        connection,
        "give_back",
        [given.acquirement_id for given in subtasks],
        [given.executor_id for given in subtasks],
        [given.entry for given in subtasks],
        [given.reason for given in subtasks],
        [given.message for given in subtasks],
        [given.delay_seconds for given in subtasks],
        MAX_ATTEMPTS,
        MAX_LOSSES,
        # Who tried it in vain before is still to be avoided when somebody else gives it back.
        [given.avoid_seconds if given.entry == "fault" else OTHERS_FIRST_SECONDS for given in subtasks],
        [given.detail for given in subtasks],
    )
    return [
        GivenBack(
            row["acquirement_id"], row["executor_id"], row["task_id"], row["subtask_id"], row["queued"], row["goes_on"]
        )
        for row in rows
    ]


CHANNEL = "minions_queue"
"""What is notified when something became available."""


async def announce(connection: Connection) -> None:
    """Wake the long polls of every server; in a transaction, when it commits."""
    await connection.execute(f"NOTIFY {CHANNEL}")


async def has_ready(
    connection: Connection, executors: Sequence[int], lanes: Sequence[str], exclude: Sequence[int]
) -> bool:
    """Whether something waits in these lanes for these executors, locked by somebody or not."""
    row = await one_of(connection, "has_ready", list(lanes), list(exclude), list(executors))
    return bool(row and row["ready"])


async def promote_due(connection: Connection) -> int:
    """Let ranges wait no longer whose time is over. Returns how many became available."""
    return sum(row["ready"] for row in await all_of(connection, "promote_due"))


@dataclass(frozen=True, slots=True)
class Held:
    """One acquirement of an executor; settled: older than a minute."""

    acquirement_id: int
    settled: bool


async def held_by(connection: Connection, executor_id: int, session: str) -> tuple[int, list[Held]]:
    """The newest acquirement of all, which may not be committed yet, and what an executor holds in its running session;
    nothing when the session was replaced."""
    rows = await all_of(connection, "held_by", executor_id, session)
    held = [Held(row["acquirement_id"], row["settled"]) for row in rows if row["acquirement_id"] is not None]
    return rows[0]["newest"], held


async def held_in_any_session(connection: Connection, executor_id: int) -> list[int]:
    """All acquirements of an executor."""
    return [row["acquirement_id"] for row in await all_of(connection, "held_in_any_session", executor_id)]


@dataclass(frozen=True, slots=True)
class OwnedSubtask:
    """What fresh links are signed for."""

    task_id: int
    subtask_id: int
    cursor: int
    attempt: int
    object: str


async def owned_subtask(connection: Connection, acquirement_id: int, executor_id: int) -> OwnedSubtask | None:
    """The subtask behind an acquirement, if the executor still owns it."""
    row = await one_of(connection, "assignment_of", acquirement_id, executor_id)
    return _owned(row) if row else None


def _owned(row: Record) -> OwnedSubtask:
    return OwnedSubtask(row["task_id"], row["subtask_id"], row["cursor"], row["attempt"], row["object"])


@dataclass(frozen=True, slots=True)
class SilentExecutor:
    """An executor that holds subtasks and was not heard of for the lease time."""

    executor_id: int
    name: str
    silent_seconds: float


async def lock_silent_executors(connection: Connection, lease_seconds: float) -> list[SilentExecutor]:
    """Lock those that fell silent; inside a transaction."""
    rows = await all_of(connection, "lock_silent_executors", lease_seconds)
    return [SilentExecutor(row["executor_id"], row["name"], row["silent_seconds"]) for row in rows]


async def held_by_silent(connection: Connection, executors: Sequence[int]) -> list[tuple[int, int]]:
    """(acquirement, executor) of all that these executors lose by silence. Commands that may be running still stay."""
    rows = await all_of(connection, "held_by_silent", list(executors))
    return [(row["acquirement_id"], row["executor_id"]) for row in rows]


def acquired_of(row: Record) -> Acquired:
    """What was handed out."""
    return Acquired(
        acquirement_id=row["acquirement_id"],
        executor_id=row["executor_id"],
        task_id=row["task_id"],
        name=TaskName(row["team"], row["project"], row["task_name"]),
        subtask_id=row["subtask_id"],
        attempt=row["attempt"],
        cursor=row["cursor"],
        object=row["object"],
        object_etag=row["object_etag"],
        object_bytes=row["object_bytes"],
        range=SubtaskRange(row["range_start"], row["range_end"]),
        format=format_from_json(row["format"]),
        pin=row["pin"],
        retry=RetryOf(row["retry"]) if row["retry"] is not None else None,
        retry_codes=None if row["retry_codes"] is None else tuple(row["retry_codes"]),
    )


def format_to_json(form: InputFormat) -> dict[str, Any]:
    """How an input format is stored."""
    stored: dict[str, Any] = {"format": form.format}
    if form.compression != "none":
        stored["compression"] = form.compression
    if form.format == "csv":
        stored |= {"delimiter": form.delimiter, "columns": list(form.columns)}
    return stored


def format_from_json(stored: dict[str, Any]) -> InputFormat:
    """The input format that was stored."""
    return InputFormat(
        format=stored["format"],
        compression=stored.get("compression", "none"),
        delimiter=stored.get("delimiter", ","),
        columns=tuple(stored.get("columns", ())),
    )
