"""Everything dies at random, again and again, during one task: every row is done once, as one process would do it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.services.models import embedding_model
from tests.services.postgres import PostgresService
from tests.system.cluster import LEASE_SECONDS, Cluster
from tests.system.conftest import EXECUTORS
from tests.system.snapshots import watched
from tests.system.work import Alone, as_jsonl, check_rows

SEED = 20_261_129
SUBTASK_BYTES = 5_000  # about 130 rows; far more subtasks than the executors can hold while each thing goes wrong
PATIENCE_SECONDS = 400

pytestmark = pytest.mark.timeout(900)


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


def leave_enough(cluster: Cluster, task: str, share: float) -> None:
    """See that executors are at work, and that a fast machine does not end the task before all has gone wrong.

    Ahead of its share the task is paused: what is held then goes on, and nothing more is handed out.
    """
    cluster.steer(task, "resume")
    view = cluster.until(lambda: busy(cluster.view(task)), 60)
    if view["subtasks"]["done"] >= share * view["subtasks"]["total"]:
        cluster.steer(task, "pause")


def busy(view: dict[str, Any]) -> dict[str, Any] | None:
    return view if view["subtasks"]["acquired"] else None


def test_a_task_of_twenty_thousand_rows_survives_everything(
    cluster: Cluster, alone: Alone, postgres: PostgresService
) -> None:
    """On four executors, with the invariant looked at all the while."""
    chance = random.Random(SEED)
    task = cluster.submit(as_jsonl(alone.texts), str(embedding_model()), SUBTASK_BYTES)
    with watched(cluster.database_url, task) as seen:
        cluster.until(lambda: cluster.view(task)["subtasks"]["done"] >= 1, 60)
        program = Chaos(cluster, postgres, chance).program()
        for number, action in enumerate(program):
            takes_long = action.__name__ == "freeze_executor"
            leave_enough(cluster, task, 0 if takes_long else number / len(program))
            action()
        cluster.steer(task, "resume")
        view = cluster.ended(task, PATIENCE_SECONDS)
    assert view["state"] == "completed", view["state_reason"]
    assert view["subtasks"]["done"] == view["subtasks"]["total"] > 2 * EXECUTORS
    assert seen.taken > 100
    check_rows(cluster.rows(task), alone)
    assert cluster.ledger(task, "lost"), "nobody lost anything, so nothing was tested"
    assert cluster.ledger(task, "fault") == []
