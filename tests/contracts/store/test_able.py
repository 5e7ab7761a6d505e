"""Who counts as able to do the rest of a task: not who is silent, also while no watchdog has written that down."""

from __future__ import annotations

from minions.domain.matching import Capabilities
from minions.store import access, executors
from minions.store.database import Connection
from tests.contracts.store.world import LANE, add_executor, fall_silent

_LEASE, _OFFLINE = 100.0, 1000.0


async def add_able(connection: Connection) -> int:
    executor = await add_executor(connection)
    takes = Capabilities(frozenset({LANE.kind}), frozenset({LANE.engine}), 8192)
    session = await connection.fetchval("SELECT session FROM minion_executor WHERE executor_id = $1", executor)
    assert await executors.heartbeat(
        connection, executor, str(session), state="idle", reason="", preferences=None, sample={}, takes=takes
    )
    return executor


async def test_a_silent_executor_is_not_counted_on(connection: Connection) -> None:
    await access.note_patience(connection, _LEASE, _OFFLINE)
    await connection.execute(
        "UPDATE minion_deployment SET server_seen_at = now(), serving_since = now() - interval '1 day'"
    )
    one, other = await add_able(connection), await add_able(connection)
    await fall_silent(connection, other, _OFFLINE / 2)
    assert await executors.others_able(connection, one, LANE, "team")
    assert await executors.able_executors(connection, LANE, "team") == 2
    await fall_silent(connection, other, _OFFLINE + 1)
    assert not await executors.others_able(connection, one, LANE, "team")
    assert await executors.others_able(connection, other, LANE, "team")
    assert await executors.able_executors(connection, LANE, "team") == 1
