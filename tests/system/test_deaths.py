"""One process dies, or stands still, while a task runs: every row is done once, as one process would do it."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from tests.services.models import embedding_model
from tests.services.postgres import PostgresService
from tests.system.cluster import LEASE_SECONDS, Cluster
from tests.system.snapshots import watched
from tests.system.work import Alone, as_jsonl, check_rows

ROWS = 2_000
SUBTASK_BYTES = 3_000  # about 75 rows
PATIENCE_SECONDS = 150

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def expected(alone: Alone) -> Alone:
    """The first rows."""
    return Alone(alone.texts[:ROWS], alone.vectors[:ROWS])


def begin(cluster: Cluster, rows: list[str]) -> tuple[str, str]:
    """A task that is well under way, and an executor that holds subtasks of it and stands still meanwhile."""
    for _ in range(5):
        task = cluster.submit(as_jsonl(rows), str(embedding_model()), SUBTASK_BYTES)
        cluster.until_done(task, 2, PATIENCE_SECONDS)
        if (victim := cluster.seize(task)) is not None:
            return task, victim
    pytest.fail("every task ended before anybody looked")


def finish(cluster: Cluster, task: str, expected: Alone) -> None:
    view = cluster.ended(task, PATIENCE_SECONDS)
    assert view["state"] == "completed", view["state_reason"]
    check_rows(cluster.rows(task), expected)
    assert cluster.ledger(task, "fault") == []


def test_an_executor_is_killed(cluster: Cluster, expected: Alone) -> None:
    """What it held goes back after the lease; its engine dies with it."""
    task, victim = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        engines = cluster.children(victim)
        cluster.signal(victim, signal.SIGKILL)
        assert engines
        assert [each for each in engines if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
        finish(cluster, task, expected)
    assert {entry["executor"] for entry in cluster.ledger(task, "lost")} <= {victim}
    cluster.start_executor(int(victim.removeprefix("e")))


def test_an_executor_is_killed_during_a_retry(cluster: Cluster, expected: Alone) -> None:
    """Of a task that was cancelled half way, and then of its failed rows: what was committed stays as it is."""
    task, held = begin(cluster, expected.texts)
    cluster.steer(task, "cancel")
    cluster.signal(held, signal.SIGCONT)
    assert cluster.ended(task, PATIENCE_SECONDS)["state"] == "cancelled"
    parts = {part["key"] for part in cluster.parts(task) if not part["failed_rows"]}
    before = {row["position"]: row for row in cluster.rows(task)}
    with watched(cluster.database_url, task):
        cluster.steer(task, "retry")
        victim = cluster.seize(task)
        assert victim is not None
        cluster.signal(victim, signal.SIGKILL)
        cluster.start_executor(int(victim.removeprefix("e")))
        finish(cluster, task, expected)
    rows = cluster.rows(task)
    assert parts <= {part["key"] for part in cluster.parts(task)}
    assert [row for row in rows if row["position"] in before] == list(before.values())
    with watched(cluster.database_url, task):
        cluster.steer(task, "retry")  # texts that are empty fail again
        finish(cluster, task, expected)
    assert cluster.rows(task) == rows
    assert cluster.view(task)["retries"] == 2


def test_an_executor_is_frozen_for_longer_than_its_lease(cluster: Cluster, expected: Alone) -> None:
    """Its subtasks go to others; when it wakes up, what it made of them is dropped, and it goes on with others."""
    task, victim = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        cluster.until(lambda: cluster.ledger(task, "lost"), LEASE_SECONDS + 60)
        cluster.signal(victim, signal.SIGCONT)
        finish(cluster, task, expected)
    assert {entry["executor"] for entry in cluster.ledger(task, "lost")} == {victim}

    cluster.until(lambda: cluster.is_idle(victim), 60)


def test_the_server_is_killed(cluster: Cluster, expected: Alone) -> None:
    """It is away for longer than the lease: executors keep their work, and nobody loses anything."""
    task, held = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        cluster.signal("server", signal.SIGKILL)
        cluster.signal(held, signal.SIGCONT)
        time.sleep(LEASE_SECONDS + 1)
        cluster.start_server()
        finish(cluster, task, expected)
    assert cluster.ledger(task, "lost") == []


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_postgresql_goes_away(cluster: Cluster, expected: Alone, postgres: PostgresService, how: str) -> None:
    """A clean restart, and kill -9 with crash recovery."""
    task, held = begin(cluster, expected.texts)
    with watched(cluster.database_url, task) as seen:
        if how == "restart":
            postgres.restart()
        else:
            postgres.kill()
            time.sleep(1)
            postgres.start()
        cluster.signal(held, signal.SIGCONT)
        finish(cluster, task, expected)
    assert seen.taken > 10


def test_executors_are_told_to_stop(cluster: Cluster, expected: Alone) -> None:
    """Two of them, as their owners do: within two seconds, what they held goes back, and it was no attempt."""
    task, held = begin(cluster, expected.texts)
    victims = {held, "e1"}
    with watched(cluster.database_url, task):
        began = time.monotonic()
        cluster.signal(held, signal.SIGCONT)
        for victim in victims:
            cluster.signal(victim, signal.SIGTERM)
        asked = began
        while victims.intersection(cluster.holders(task)):
            assert asked - began < 2
            asked = time.monotonic()
        for victim in victims:
            assert cluster.processes.pop(victim).wait(30) == 0
        finish(cluster, task, expected)
    assert cluster.ledger(task, "lost") == []
    for victim in victims:
        cluster.start_executor(int(victim.removeprefix("e")))


def test_a_second_executor_on_one_state_directory_is_refused(cluster: Cluster) -> None:
    cluster.until(lambda: cluster.is_idle("e0"), 60)
    second = cluster.run_twice("e0")
    assert second.returncode == 1
    assert "another executor runs with the state directory" in second.stderr
    assert "--state" in second.stderr
    assert cluster.died() == []
