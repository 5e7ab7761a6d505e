"""Metrics in Prometheus' form: what this server has done, and how the deployment stands."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from minions.domain.errors import Unavailable
from minions.runtime.version import VERSION
from minions.server.background.supervise import Supervisor
from minions.server.counters import LATENCY_SECONDS, Counters
from minions.server.readiness import Readiness
from minions.server.watched import Watched
from minions.store.database import Database
from minions.store.standing import EXECUTOR_STATES, Standing, read_standing

CONTENT_TYPE = CONTENT_TYPE_LATEST
_FRESH_SECONDS = 5.0  # shorter than any sensible scrape interval: several scrapers share one look at the database
_PATIENCE_SECONDS = 2.0  # a scraper waits ten; what it is told of a database that hangs must come before
_BOUNDS = [*(str(bound) for bound in LATENCY_SECONDS), "+Inf"]


class Metrics:
    """All metrics of one server, in a registry of its own: several servers may live in one process."""

    def __init__(
        self,
        database: Database,
        counters: Counters,
        supervisor: Supervisor,
        watched: Watched,
        readiness: Readiness,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._readiness = readiness
        self._monotonic = monotonic
        self._standing: Standing | None = None
        self._ready: dict[str, bool] = {}
        self._fresh_until = 0.0
        self._looking = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(_Families(lambda: server_metrics(counters, supervisor.restarts, supervisor.down)))
        self._registry.register(_Families(lambda: ready_metrics(self._ready)))
        self._registry.register(_Families(lambda: standing_metrics(self._standing, watched.is_active)))
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """The answer to a scrape. A database that is away costs the metrics that come from it, and no others."""
        async with self._looking:
            if self._fresh_until <= self._monotonic():
                self._standing, self._ready = await asyncio.gather(
                    self._look(), self._readiness.standing(_PATIENCE_SECONDS)
                )
                self._fresh_until = self._monotonic() + _FRESH_SECONDS
        return await asyncio.to_thread(generate_latest, self._registry)

    async def _look(self) -> Standing | None:
        try:
            async with self._database.briefly(_PATIENCE_SECONDS) as connection:
                return await read_standing(connection)
        except Unavailable:
            return None  # nothing rather than what was


class _Families(Collector):
    """What a function says when it is asked."""

    def __init__(self, said: Callable[[], Iterator[Metric]]) -> None:
        self._said = said

    def collect(self) -> Iterator[Metric]:
        return self._said()

    def describe(self) -> list[Metric]:
        return []  # else registering would ask, before there is anything to say


def server_metrics(counters: Counters, restarts: Mapping[str, int], down: set[str]) -> Iterator[Metric]:
    """What one server counts; add them up over the servers."""
    yield _gauge(
        "minions_build_info",
        "Which version runs here; always 1.",
        ("version", "python"),
        {(VERSION, platform.python_version()): 1},
    )
    work = counters.work.items()
    for name, said, numbers in (
        ("subtasks_acquired", "Subtasks handed out.", {kind: each.acquired for kind, each in work}),
        ("subtasks_done", "Subtasks of which the last part was committed.", {kind: each.done for kind, each in work}),
        ("parts_committed", "Parts accepted.", {kind: each.parts for kind, each in work}),
        ("rows_committed", "Rows in accepted parts, failed ones too.", {kind: each.rows for kind, each in work}),
        ("rows_failed", "Rows in accepted parts that failed.", {kind: each.failed_rows for kind, each in work}),
        ("input_bytes", "Bytes of input that were read for them.", {kind: each.input_bytes for kind, each in work}),
        ("input_tokens", "Tokens that models read for them.", {kind: each.input_tokens for kind, each in work}),
        ("output_tokens", "Tokens that models wrote for them.", {kind: each.output_tokens for kind, each in work}),
    ):
        yield _counter(f"minions_{name}", said, ("kind",), {(kind,): number for kind, number in numbers.items()})
    for name, said, label, numbers in (
        ("subtasks_released", "Subtasks that executors gave back; no attempt.", "reason", counters.released),
        ("subtasks_lost", "Subtasks of executors that started again after a crash.", "reason", counters.lost),
        ("subtask_faults", "Attempts that failed.", "code", counters.faults),
    ):
        yield _counter(f"minions_{name}", said, (label,), {(key,): number for key, number in numbers.items()})
    yield _counter("minions_subtasks_set_aside", "Subtasks that nobody could do.", (), {(): counters.set_aside})
    yield _gauge(
        "minions_loop_up",
        "Whether a background loop runs well.",
        ("loop",),
        {(name,): name not in down for name in restarts},
    )
    yield _counter(
        "minions_loop_restarts",
        "How often a background loop had to be started again.",
        ("loop",),
        {(name,): number for name, number in restarts.items()},
    )
    yield _latencies(counters)


def ready_metrics(ready: Mapping[str, bool]) -> Iterator[Metric]:
    """What one server has and lacks, as /readyz tells it."""
    yield _gauge(
        "minions_ready",
        "Whether a part is there that this server needs, as /readyz tells it.",
        ("part",),
        {(part,): there for part, there in ready.items()},
    )


def standing_metrics(standing: Standing | None, watched: bool | None) -> Iterator[Metric]:
    """How the deployment stands, by the database; every server says the same, so do not add them up.

    watched: whether a watchdog runs; None while that is not known.
    """
    yield _gauge("minions_database_up", "Whether the database answered.", (), {(): standing is not None})
    if standing is None:
        return
    numbers = standing.numbers.items()
    yield _gauge(
        "minions_watchdog_up",
        "Whether a watchdog runs that gives back what silent executors hold.",
        (),
        {} if watched is None else {(): watched},
    )
    yield _gauge(
        "minions_queue_subtasks",
        "Subtasks that wait: ready, delayed after a fault, held back while the same job may run, or of a paused task.",
        ("team", "kind", "state"),
        {(group.team, group.kind, group.state): number for group, number in numbers if group.what == "queued"},
    )
    yield _gauge(
        "minions_queue_longest_wait_seconds",
        "How long the oldest subtask that is ready has waited.",
        ("team", "kind"),
        {(group.team, group.kind): seconds for group, seconds in standing.longest_seconds.items()},
    )
    yield _gauge(
        "minions_acquired_subtasks",
        "Subtasks under way.",
        ("team", "kind"),
        {(group.team, group.kind): number for group, number in numbers if group.what == "acquired"},
    )
    yield _gauge(
        "minions_open_tasks",
        "Tasks that have not ended.",
        ("team", "kind", "state"),
        {(group.team, group.kind, group.state): number for group, number in numbers if group.what == "task"},
    )
    found = {group.state: number for group, number in numbers if group.what == "executor"}
    yield _gauge(
        "minions_executors",
        "Executors that were ever registered, by state.",
        ("state",),
        {(state,): found.get(state, 0) for state in EXECUTOR_STATES},
    )


def _gauge(name: str, said: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, said, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family


def _counter(name: str, said: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(name, said, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family


def _latencies(counters: Counters) -> Metric:
    family = HistogramMetricFamily(
        "minions_http_request_duration_seconds",
        "Time until the answer to a request began; an acquire may wait for work.",
        labels=("method", "route", "status"),
    )
    for key, latencies in list(counters.requests.items()):
        buckets = list(zip(_BOUNDS, map(float, accumulate(latencies.counts)), strict=True))
        family.add_metric(key, buckets, latencies.seconds)
    return family
