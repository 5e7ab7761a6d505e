"""Parts go to an S3 store by presigned links; executors hold no credentials."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.services.models import embedding_model
from tests.services.postgres import PostgresService
from tests.services.s3 import S3Service
from tests.system.cluster import Cluster
from tests.system.conftest import durable_database
from tests.system.snapshots import watched
from tests.system.work import Alone, as_jsonl, check_rows

ROWS = 1_500
pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def s3_cluster(postgres: PostgresService, s3: S3Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server that keeps its objects in a bucket, and two executors."""
    url = durable_database(postgres)
    running = Cluster(tmp_path_factory.mktemp("s3-cluster"), url, f"s3://{s3.bucket}/system", s3.environment)
    try:
        running.start_server()
        running.wait_for_server()
        running.start_watchdog()
        running.start_executor(0)
        running.start_executor(1)
        yield running
    finally:
        running.stop()
        postgres.drop_database(url)


def _environment(process: psutil.Process) -> dict[str, str]:
    """Of a process that runs; a zombie has none."""
    with suppress(psutil.NoSuchProcess):
        return process.environ()
    return {}


def test_a_task_over_s3_survives_a_killed_executor(s3_cluster: Cluster, alone: Alone, s3: S3Service) -> None:
    expected = Alone(alone.texts[:ROWS], alone.vectors[:ROWS])
    task = s3_cluster.submit(as_jsonl(expected.texts), str(embedding_model()), 3_000)
    with watched(s3_cluster.database_url, task):
        s3_cluster.until_done(task, 2, 120)
        victim = s3_cluster.seize(task)
        assert victim is not None
        for name in ("e0", "e1"):
            processes = [psutil.Process(s3_cluster.processes[name].pid), *s3_cluster.children(name)]
            environments = [found for process in processes if (found := _environment(process))]
            assert environments
            assert not any(key.startswith("AWS_") for found in environments for key in found)
            assert not any(s3.secret_key in value for found in environments for value in found.values())
        s3_cluster.signal(victim, signal.SIGKILL)
        view = s3_cluster.ended(task, 150)
    assert view["state"] == "completed", view["state_reason"]
    assert all(part["link"].startswith(s3.endpoint) for part in s3_cluster.parts(task) if part["link"])
    check_rows(s3_cluster.rows(task), expected)
    assert s3_cluster.ledger(task, "fault") == []
