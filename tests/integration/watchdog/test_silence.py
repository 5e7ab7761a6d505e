"""An executor that fell silent is told as offline by everybody who reads, whether or not a watchdog wrote it down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pytest

from minions.domain.matching import Capabilities
from minions.domain.silence import NO_SIGN_OF_LIFE, offline_seconds
from minions.store import access, acquirements, executors, fleet
from minions.store.changes import look_for_changes
from minions.store.database import Connection
from minions.store.looking import executor_standings
from minions.store.standing import read_standing
from minions.watchdog.passes.prune import prune
from minions.watchdog.passes.release_silent import release_silent
from tests.contracts.store.world import LANE, add_executor, add_task, fall_silent
from tests.integration.watchdog.test_watch import LEASE, one_silent, serving_for

HEARTBEAT = 300.0
OFFLINE = offline_seconds(HEARTBEAT)


@pytest.fixture
async def patient(connection: Connection) -> Connection:
    """A database of which a server has said when silence counts."""
    await access.note_patience(connection, LEASE, OFFLINE)
    return connection


@dataclass(frozen=True, slots=True)
class Told:
    """An executor, as one reader tells it."""

    state: str
    reason: str
    since: datetime


async def told(connection: Connection, executor: int) -> Told:
    """What all readers say alike."""
    (listed,) = [each for each in await executors.list_executors(connection) if each.executor_id == executor]
    ((_, page),) = (await fleet.browse_executors(connection, executor_id=executor)).executors
    grafana = await connection.fetchrow(
        "SELECT state, state_reason, state_since FROM grafana_executor WHERE executor_id = $1", executor
    )
    now = (await executor_standings(connection, [executor]))[executor]
    (candidate,) = await executors.candidates(connection, executor)
    assert grafana is not None
    assert (candidate.state, candidate.reason) == (now.state, now.reason)
    all_told = {
        Told(listed.state, listed.state_reason, listed.state_since),
        Told(page.state, page.state_reason, page.state_since),
        Told(grafana["state"], grafana["state_reason"], grafana["state_since"]),
    }
    assert len(all_told) == 1, all_told
    (one,) = all_told
    assert (now.state, now.reason) == (one.state, one.reason)
    return one


async def last_seen(connection: Connection, executor: int) -> datetime:
    return await connection.fetchval("SELECT last_seen_at FROM minion_executor WHERE executor_id = $1", executor)


async def counted(connection: Connection) -> dict[str, int]:
    """Executors by state, which the metrics, the overview, the pills of the list and Grafana count alike."""
    numbers = (await read_standing(connection)).numbers
    standing = {group.state: number for group, number in numbers.items() if group.what == "executor"}
    rows = await connection.fetch("SELECT state, count(*) AS number FROM grafana_executor GROUP BY state")
    assert standing == {row["state"]: row["number"] for row in rows}
    assert standing == (await fleet.browse_executors(connection)).counts
    offline = (await fleet.browse_executors(connection, states=["offline"])).executors
    assert len(offline) == standing.get("offline", 0)
    return standing


async def test_who_holds_subtasks_is_offline_after_the_lease(patient: Connection) -> None:
    _, silent, well = await one_silent(patient)
    heard = await last_seen(patient, silent)
    assert await told(patient, silent) == Told("offline", NO_SIGN_OF_LIFE, heard)
    assert (await told(patient, well)).state == "starting"
    assert await counted(patient) == {"offline": 1, "starting": 1}
    assert len(await executors.candidates(patient)) == 1
    assert await patient.fetchval("SELECT count(*) FROM minion_executor WHERE state = 'offline'") == 0, (
        "nobody wrote it"
    )
    # A watchdog that comes back takes what it holds, and tells nothing else of it.
    assert len(await release_silent(patient, LEASE)) == 2
    assert await told(patient, silent) == Told("offline", NO_SIGN_OF_LIFE, heard)
    assert await counted(patient) == {"offline": 1, "starting": 1}


async def test_one_that_is_heard_of_again_is_what_it_was(patient: Connection) -> None:
    _, silent, _ = await one_silent(patient)
    before = (await look_for_changes(patient, None, watched=[])).silent
    known = await look_for_changes(patient, None, watched=[], silent=frozenset())
    assert known.silent == frozenset(), "not looked for"
    await executors.note_signs_of_life(patient, [silent])
    assert (await told(patient, silent)).state == "starting"
    after = (await look_for_changes(patient, None, watched=[])).silent
    assert (before, after) == ({silent}, set()), "open pages are told of both"


async def test_a_second_start_is_held_too(patient: Connection) -> None:
    owner, second = await add_executor(patient), await add_executor(patient)
    await add_task(patient, 1)
    (held,) = await acquirements.acquire_from_lanes(patient, [owner], [LANE.key], [])
    await patient.execute(
        "UPDATE minion_subtask_acquirement SET second_id = acquirement_id + 1000, second_executor_id = $2, "
        "second_since = now() WHERE acquirement_id = $1",
        held.acquirement_id,
        second,
    )
    await serving_for(patient, 3600)
    await fall_silent(patient, second, LEASE + 1)
    assert await counted(patient) == {"offline": 1, "starting": 1}


async def test_who_was_given_something_just_now_has_the_whole_lease(patient: Connection) -> None:
    """An idle executor may wait for work longer than the lease, and says nothing meanwhile."""
    patiently_waiting = await add_executor(patient)
    await serving_for(patient, 3600)
    await fall_silent(patient, patiently_waiting, LEASE + 5)
    await add_task(patient, 1)
    (held,) = await acquirements.acquire_from_lanes(patient, [patiently_waiting], [LANE.key], [])
    assert (await told(patient, patiently_waiting)).state == "starting"
    assert await release_silent(patient, LEASE) == []
    await fall_silent(patient, patiently_waiting, LEASE + 5)
    assert (await told(patient, patiently_waiting)).state == "offline"
    assert [each.acquirement_id for each in await release_silent(patient, LEASE)] == [held.acquirement_id]


async def test_who_holds_nothing_is_offline_when_the_watchdog_would_say_so(patient: Connection) -> None:
    idle = await add_executor(patient)
    await serving_for(patient, 3600)
    await fall_silent(patient, idle, OFFLINE - 60)
    assert (await told(patient, idle)).state == "starting"
    await fall_silent(patient, idle, OFFLINE + 10)
    heard = await last_seen(patient, idle)
    assert await told(patient, idle) == Told("offline", NO_SIGN_OF_LIFE, heard)
    await prune(patient, 30, OFFLINE, LEASE)
    assert await patient.fetchval("SELECT state FROM minion_executor") == "offline"
    assert await told(patient, idle) == Told("offline", NO_SIGN_OF_LIFE, heard)


async def test_silence_while_the_server_was_away_is_nobodys(patient: Connection) -> None:
    _, silent, _ = await one_silent(patient)
    await serving_for(patient, LEASE - 45)  # it came back a short while ago
    assert (await told(patient, silent)).state == "starting"
    await serving_for(patient, LEASE + 5)
    assert (await told(patient, silent)).state == "offline"


async def test_while_no_server_is_there_nobody_falls_silent(patient: Connection) -> None:
    """Grafana goes on reading then."""
    _, silent, well = await one_silent(patient)
    await patient.execute(
        "UPDATE minion_deployment SET server_seen_at = now() - interval '1 hour', "
        "serving_since = now() - interval '2 hours'"
    )
    await fall_silent(patient, silent, 3600 + LEASE + 5)
    await fall_silent(patient, well, 3600 + LEASE - 45)
    assert (await told(patient, silent)).state == "offline"
    assert (await told(patient, well)).state == "starting"


async def test_one_that_said_why_it_ended_keeps_its_words(patient: Connection) -> None:
    _, silent, _ = await one_silent(patient)
    await patient.execute(
        "UPDATE minion_executor SET state = 'offline', state_reason = 'stopped', "
        "state_since = now() - interval '1 minute' WHERE executor_id = $1",
        silent,
    )
    found = await told(patient, silent)
    assert (found.state, found.reason) == ("offline", "stopped")
    assert found.since > await last_seen(patient, silent)


async def test_before_a_server_said_when_silence_counts_it_does_not(connection: Connection) -> None:
    """As in the moment after an upgrade."""
    _, silent, _ = await one_silent(connection)
    assert (await told(connection, silent)).state == "starting"
    assert isinstance((await executors.candidates(connection))[0].offer, Capabilities)


async def test_who_keeps_what_of_which_task(patient: Connection) -> None:
    task, silent, _ = await one_silent(patient)
    other = await add_task(patient, 1)
    (held,) = await executors.silent_holders(patient, [task, other])
    assert (held.task_id, held.holds, held.last_seen_at) == (task, 2, await last_seen(patient, silent))
    await patient.execute("UPDATE minion_task SET keeps_owner = true WHERE task_id = $1", task)
    assert await executors.silent_holders(patient, [task]) == [], "no watchdog would take these"
