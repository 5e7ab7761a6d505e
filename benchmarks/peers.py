"""Other queues in PostgreSQL, for acquire.py: how many jobs that do nothing one worker process gets through a second.

    python benchmarks/peers.py procrastinate|pgqueuer DATABASE_URL JOBS [SETTING]

Fills the queue in bulk, then lets one worker empty it, and prints {"jobs_per_second": …}. The clock runs from the first
job to the last. Both run on uvloop.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any, cast

import asyncpg  # the drivers that these libraries recommend
import procrastinate
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

_BULK = 5_000


class Clock:
    """Notes when jobs ran."""

    def __init__(self) -> None:
        self.jobs = 0
        self.first = self.last = 0.0

    def tick(self) -> None:
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.jobs += 1

    def rate(self, expected: int) -> float:
        if self.jobs != expected:
            raise RuntimeError(f"{self.jobs} of {expected} jobs ran")
        return (self.jobs - 1) / (self.last - self.first)


async def run_procrastinate(url: str, jobs: int, concurrency: int) -> float:
    """Jobs that are done are deleted, which is its cheaper way to end them."""
    clock = Clock()
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20))

    @app.task(name="nothing")
    async def nothing() -> None:
        clock.tick()

    arguments: list[dict[str, Any]] = [{}]
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for at in range(0, jobs, _BULK):
            await nothing.batch_defer_async(*(arguments * min(_BULK, jobs - at)))
        await app.run_worker_async(
            wait=False, concurrency=concurrency, delete_jobs="always", install_signal_handlers=False
        )
    return clock.rate(jobs)


async def run_pgqueuer(url: str, jobs: int, batch_size: int) -> float:
    clock = Clock()
    async with cast("Any", asyncpg).create_pool(url, min_size=5, max_size=20) as pool:
        driver = AsyncpgPoolDriver(pool)
        app = PgQueuer(driver)
        await app.qm.queries.install()
        for at in range(0, jobs, _BULK):
            number = min(_BULK, jobs - at)
            await app.qm.queries.enqueue(["nothing"] * number, [None] * number, [0] * number)

        @app.entrypoint("nothing")
        async def nothing(_: Job) -> None:
            clock.tick()

        await app.qm.run(batch_size=batch_size, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
    return clock.rate(jobs)


if __name__ == "__main__":
    run = {"procrastinate": run_procrastinate, "pgqueuer": run_pgqueuer}[sys.argv[1]]
    rate = uvloop.run(run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    print(json.dumps({"jobs_per_second": rate}))
