"""One process dies, or stands still, while a task runs: every row is done once, as one process would do it."""

from __future__ import annotations

import signal
import time

import pytest

from tests.services.models import embedding_model
from tests.services.postgres import PostgresService
from tests.system.cluster import LEASE_SECONDS, Cluster
from tests.system.snapshots import watched
from tests.system.work import Alone, as_jsonl, check_rows

ROWS = 2_000
SUBTASK_BYTES = 3_000  # about 75 rows
PATIENCE_SECONDS = 90

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def expected(alone: Alone) -> Alone:
    """The first rows."""
    return Alone(alone.texts[:ROWS], alone.vectors[:ROWS])


def begin(cluster: Cluster, rows: list[str]) -> str:
    """Submit a task and wait until it is well under way."""
    task = cluster.submit(as_jsonl(rows), str(embedding_model()), SUBTASK_BYTES)
    cluster.until(lambda: cluster.view(task)["subtasks"]["done"] >= 2, PATIENCE_SECONDS)
    return task


def finish(cluster: Cluster, task: str, expected: Alone) -> None:
    view = cluster.ended(task, PATIENCE_SECONDS)
    assert view["state"] == "completed", view["state_reason"]
    check_rows(cluster.rows(task), expected)
    assert cluster.ledger(task, "fault") == []


def test_an_executor_is_killed(cluster: Cluster, expected: Alone) -> None:
    """What it held goes back after the lease; its engine dies with it."""
    task = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        victim = cluster.holder(task)
        engines = cluster.children(victim)
        cluster.signal(victim, signal.SIGKILL)
        assert engines
        assert not any(each.is_running() for each in engines)
        finish(cluster, task, expected)
    assert {entry["executor"] for entry in cluster.ledger(task, "lost")} <= {victim}
    cluster.start_executor(int(victim.removeprefix("e")))


def test_an_executor_is_killed_during_a_retry(cluster: Cluster, expected: Alone) -> None:
    """Of a task that was cancelled half way, and then of its failed rows: what was committed stays as it is."""
    task = begin(cluster, expected.texts)
    cluster.steer(task, "cancel")
    assert cluster.ended(task, PATIENCE_SECONDS)["state"] == "cancelled"
    parts = {part["key"] for part in cluster.parts(task) if not part["failed_rows"]}
    before = {row["position"]: row for row in cluster.rows(task)}
    with watched(cluster.database_url, task):
        cluster.steer(task, "retry")
        victim = cluster.holder(task)
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
    task = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        victim = cluster.holder(task)
        cluster.signal(victim, signal.SIGSTOP)
        cluster.until(lambda: cluster.ledger(task, "lost"), LEASE_SECONDS + 15)
        cluster.signal(victim, signal.SIGCONT)
        finish(cluster, task, expected)
    assert {entry["executor"] for entry in cluster.ledger(task, "lost")} == {victim}

    cluster.until(lambda: cluster.is_idle(victim), 20)


def test_the_server_is_killed(cluster: Cluster, expected: Alone) -> None:
    """It is away for longer than the lease: executors keep their work, and nobody loses anything."""
    task = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        cluster.holder(task)
        cluster.signal("server", signal.SIGKILL)
        time.sleep(LEASE_SECONDS + 1)
        cluster.start_server()
        finish(cluster, task, expected)
    assert cluster.ledger(task, "lost") == []


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_postgresql_goes_away(cluster: Cluster, expected: Alone, postgres: PostgresService, how: str) -> None:
    """A clean restart, and kill -9 with crash recovery."""
    task = begin(cluster, expected.texts)
    with watched(cluster.database_url, task) as seen:
        cluster.holder(task)
        if how == "restart":
            postgres.restart()
        else:
            postgres.kill()
            time.sleep(1)
            postgres.start()
        finish(cluster, task, expected)
    assert seen.taken > 10


def test_executors_are_told_to_stop(cluster: Cluster, expected: Alone) -> None:
    """Two of them, as their owners do: within two seconds, what they held goes back, and it was no attempt."""
    task = begin(cluster, expected.texts)
    with watched(cluster.database_url, task):
        victims = {cluster.holder(task), "e1"}
        began = time.monotonic()
        for victim in victims:
            cluster.signal(victim, signal.SIGTERM)
        held = "/api/v1/tasks/{}/subtasks?state=acquired&limit=1000"
        holders = {each["executor"] for each in cluster.get(held.format(task))["data"]}
        while holders & victims:
            holders = {each["executor"] for each in cluster.get(held.format(task))["data"]}
        assert time.monotonic() - began < 2
        for victim in victims:
            assert cluster.processes.pop(victim).wait(5) == 0
        finish(cluster, task, expected)
    assert cluster.ledger(task, "lost") == []
    for victim in victims:
        cluster.start_executor(int(victim.removeprefix("e")))


def test_a_second_executor_on_one_state_directory_is_refused(cluster: Cluster) -> None:
    cluster.until(lambda: cluster.is_idle("e0"), 20)
    second = cluster.run_twice("e0")
    assert second.returncode == 1
    assert "another executor runs with the state directory" in second.stderr
    assert "--state" in second.stderr
    assert cluster.died() == []
