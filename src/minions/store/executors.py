"""Executors: registration, signs of life, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from minions.domain.matching import Capabilities, Lane
from minions.domain.reasons import Candidate
from minions.domain.silence import NO_SIGN_OF_LIFE
from minions.store.database import Connection, Record, all_of, one_of
from minions.store.history import database_time, place_before


@dataclass(frozen=True, slots=True)
class NewExecutor:
    """What an executor says of itself when it starts."""

    instance: str
    session: str
    name: str
    owner: str
    version: str
    token_id: int | None
    device: dict[str, Any]
    capabilities: Capabilities
    preferences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """The running session of an executor: who may speak for it, and what it can do."""

    executor_id: int
    session: str
    name: str
    token_id: int | None
    capabilities: Capabilities
    preferences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExecutorStanding:
    """An executor as people see it."""

    executor_id: int
    name: str
    owner: str
    version: str
    state: str
    state_reason: str
    state_since: datetime
    last_seen_at: datetime
    silent_seconds: float
    registered_at: datetime
    device: dict[str, Any]
    capabilities: Capabilities
    preferences: tuple[str, ...]
    holds: int
    current: tuple[str, ...]
    rows_last_minute: int
    parts: int


async def register_executor(connection: Connection, executor: NewExecutor) -> int | None:
    """Store the executor under its instance; a new session replaces the old one.

    Returns its number, or None when the instance belongs to another token.
    """
    row = await one_of(
        connection,
        "register_executor",
        executor.instance,
        executor.session,
        executor.name,
        executor.owner,
        executor.version,
        executor.token_id,
        executor.device,
        sorted(executor.capabilities.kinds),
        sorted(executor.capabilities.engines),
        executor.capabilities.memory_mb,
        list(executor.preferences),
    )
    return row["executor_id"] if row else None


async def read_session(connection: Connection, executor_id: int) -> Session | None:
    """The running session of an executor."""
    row = await one_of(connection, "read_session", executor_id)
    if row is None:
        return None
    return Session(
        executor_id=row["executor_id"],
        session=str(row["session"]),
        name=row["name"],
        token_id=row["token_id"],
        capabilities=_capabilities(row),
        preferences=tuple(row["preferences"]),
    )


async def note_signs_of_life(connection: Connection, executors: Sequence[int]) -> None:
    """They were heard of just now."""
    await all_of(connection, "note_signs_of_life", list(executors), NO_SIGN_OF_LIFE)


async def heartbeat(
    connection: Connection,
    executor_id: int,
    session: str,
    *,
    state: str,
    reason: str,
    preferences: Sequence[str] | None,
    sample: dict[str, float],
    takes: Capabilities | None = None,
    leaves: dict[str, str] | None = None,
    device: dict[str, Any] | None = None,
) -> bool:
    """Note how the executor is. False: its session was replaced.

    takes: what it takes from now on; leaves: the tasks that it leaves alone; device: what it is; None as before.
    """
    wanted = None if preferences is None else list(preferences)
    taken = (None, None, None)
    if takes is not None:
        taken = (sorted(takes.kinds), takes.memory_mb, None if takes.teams is None else sorted(takes.teams))
    row = await one_of(
        connection, "heartbeat", executor_id, UUID(session), state, reason, wanted, sample, *taken, leaves, device
    )
    return row is not None


async def say_goodbye(connection: Connection, executor_id: int, session: str, reason: str) -> bool:
    """The executor ends. False when its session was replaced."""
    return await one_of(connection, "say_goodbye", executor_id, UUID(session), reason) is not None


async def mark_offline(connection: Connection, executors: Sequence[int]) -> None:
    """They fell silent."""
    await all_of(connection, "mark_offline", list(executors), NO_SIGN_OF_LIFE)


async def mark_silent(connection: Connection, seconds: float) -> int:
    """Executors without work that were not heard of for so long. Returns how many there were."""
    return len(await all_of(connection, "mark_silent", seconds, NO_SIGN_OF_LIFE))


async def list_executors(
    connection: Connection, *, after: int = 0, executor_id: int | None = None, limit: int = 100
) -> list[ExecutorStanding]:
    """Executors by number; those offline too."""
    minute = await place_before(connection, await database_time(connection) - timedelta(minutes=1))
    rows = await all_of(connection, "list_executors", after, executor_id, limit, minute)
    return [standing_of(row) for row in rows]


def standing_of(row: Record) -> ExecutorStanding:
    """An executor from the row of a query that adds what it holds and did lately."""
    return ExecutorStanding(
        executor_id=row["executor_id"],
        name=row["name"],
        owner=row["owner"],
        version=row["version"],
        state=row["state"],
        state_reason=row["state_reason"],
        state_since=row["state_since"],
        last_seen_at=row["last_seen_at"],
        silent_seconds=row["silent_seconds"],
        registered_at=row["registered_at"],
        device=row["device"],
        capabilities=_capabilities(row),
        preferences=tuple(row["preferences"]),
        holds=row["holds"],
        current=tuple(row["current"]),
        rows_last_minute=row["rows_last_minute"],
        parts=row["parts"],
    )


async def executor_names(connection: Connection, executors: Sequence[int]) -> dict[int, str]:
    """Names by number."""
    rows = await all_of(connection, "executor_names", list(executors))
    return {row["executor_id"]: row["name"] for row in rows}


@dataclass(frozen=True, slots=True)
class SilentHolder:
    """An executor that fell silent with subtasks of a task."""

    task_id: int
    name: str
    last_seen_at: datetime
    holds: int


async def silent_holders(connection: Connection, tasks: Sequence[int]) -> list[SilentHolder]:
    """Who is silent and holds subtasks of these tasks that are to be taken from it, the longest silence first."""
    return [SilentHolder(**row) for row in await all_of(connection, "silent_holders", list(tasks))]


async def candidates(connection: Connection, executor_id: int | None = None) -> list[Candidate]:
    """The executors that are not offline, or the one that is named, as matching sees them."""
    return [
        Candidate(
            number=row["executor_id"],
            name=row["name"],
            state=row["state"],
            reason=row["state_reason"],
            offer=_capabilities(row),
            leaves=row["leaves"] or {},
        )
        for row in await all_of(connection, "candidates", executor_id)
    ]


async def cached_weights(connection: Connection, model: str) -> int | None:
    """Bytes of a model's weights, as executors that have it say; None when none has."""
    row = await one_of(connection, "cached_weights", model)
    return row["weight_bytes"] if row else None


async def others_able(connection: Connection, executor_id: int, lane: Lane, team: str) -> bool:
    """Whether another executor is there that could do a subtask of this lane."""
    row = await one_of(connection, "others_able", executor_id, lane.kind, lane.engine, lane.memory_mb, team)
    return bool(row and row["able"])


async def able_executors(connection: Connection, lane: Lane, team: str) -> int:
    """How many executors that are not offline could do a subtask of this lane, whether they are at work or not."""
    row = await one_of(connection, "able_executors", lane.kind, lane.engine, lane.memory_mb, team)
    return row["able"] if row else 0


async def prune_heartbeats(connection: Connection, days: float) -> bool:
    """Forget some of the samples older than this. Whether there may be more."""
    row = await one_of(connection, "prune_heartbeats", days)
    return bool(row and row["pruned"])


def _capabilities(row: Record) -> Capabilities:
    teams = None if row["teams"] is None else frozenset(row["teams"])
    return Capabilities(frozenset(row["kinds"]), frozenset(row["engines"]), row["memory_mb"], teams)
