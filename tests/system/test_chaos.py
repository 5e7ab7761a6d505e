"""Everything dies at random, again and again, during one task: every row is done once, as one process would do it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.services.models import embedding_model
from tests.services.postgres import PostgresService
from tests.system.cluster import LEASE_SECONDS, Cluster
from tests.system.conftest import EXECUTORS
from tests.system.snapshots import watched
from tests.system.work import Alone, as_jsonl, check_rows

SEED = 20_261_129
SUBTASK_BYTES = 8_000  # about 200 rows
PATIENCE_SECONDS = 200

pytestmark = pytest.mark.timeout(300)


class Chaos:
    """What can go wrong, and how each is put right again."""

    def __init__(self, cluster: Cluster, postgres: PostgresService, chance: random.Random) -> None:
        self._cluster = cluster
        self._postgres = postgres
        self._chance = chance

    def some_executor(self) -> int:
        return self._chance.randrange(EXECUTORS)

    def kill_executor(self) -> None:
        number = self.some_executor()
        self._cluster.signal(f"e{number}", signal.SIGKILL)
        time.sleep(self._chance.uniform(0, 1))
        self._cluster.start_executor(number)

    def freeze_executor(self) -> None:
        number = self.some_executor()
        self._cluster.signal(f"e{number}", signal.SIGSTOP)
        time.sleep(LEASE_SECONDS + 1)
        self._cluster.signal(f"e{number}", signal.SIGCONT)

    def kill_server(self) -> None:
        self._cluster.signal("server", signal.SIGKILL)
        time.sleep(self._chance.uniform(0, 2))
        self._cluster.start_server()

    def kill_watchdog(self) -> None:
        self._cluster.signal("watchdog", signal.SIGKILL)
        self._cluster.start_watchdog()

    def restart_postgres(self) -> None:
        self._postgres.restart()

    def kill_postgres(self) -> None:
        self._postgres.kill()
        time.sleep(self._chance.uniform(0, 1))
        self._postgres.start()

    def program(self) -> list[Callable[[], None]]:
        """Each at least once, executors more often, in an order that the seed decides."""
        actions = [
            *[self.kill_executor] * 3,
            self.freeze_executor,
            *[self.kill_server] * 2,
            self.kill_watchdog,
            self.restart_postgres,
            self.kill_postgres,
        ]
        self._chance.shuffle(actions)
        return actions


def test_a_task_of_twenty_thousand_rows_survives_everything(
    cluster: Cluster, alone: Alone, postgres: PostgresService
) -> None:
    """On four executors, with the invariant looked at all the while."""
    chance = random.Random(SEED)
    task = cluster.submit(as_jsonl(alone.texts), str(embedding_model()), SUBTASK_BYTES)
    with watched(cluster.database_url, task) as seen:
        cluster.until(lambda: cluster.view(task)["subtasks"]["done"] >= 1, 60)
        for action in Chaos(cluster, postgres, chance).program():
            action()
            time.sleep(chance.uniform(0, 1.5))
        still_running = cluster.until(lambda: cluster.view(task), 60)["state"] == "running"
        view = cluster.ended(task, PATIENCE_SECONDS)
    assert still_running, "it ended before everything had gone wrong"
    assert view["state"] == "completed", view["state_reason"]
    assert view["subtasks"]["done"] == view["subtasks"]["total"] > 2 * EXECUTORS
    assert seen.taken > 100
    check_rows(cluster.rows(task), alone)
    assert cluster.ledger(task, "lost"), "nobody lost anything, so nothing was tested"
    assert cluster.ledger(task, "fault") == []
