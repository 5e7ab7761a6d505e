"""Metrics of a watchdog, in Prometheus' form, at an address of their own: it serves nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, start_http_server

from minions.domain.errors import Conflict


class WatchdogMetrics:
    """What a watchdog counts since it started. registry: its own, since several may live in one process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self.active = Gauge(
            "minions_watchdog_active", "Whether this watchdog is the one that works.", registry=self.registry
        )
        self.lost = Counter(
            "minions_watchdog_subtasks_lost", "Subtasks taken from silent executors.", registry=self.registry
        )
        self.stuck = Gauge("minions_watchdog_stuck_tasks", "Tasks that need a look.", registry=self.registry)
        self._ended = Gauge(
            "minions_watchdog_pass_timestamp_seconds", "When a pass last ended well.", ["name"], registry=self.registry
        )
        self._failed = Counter(
            "minions_watchdog_pass_failures", "Passes that ended in an error.", ["name"], registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def pass_ended(self, name: str) -> None:
        self._ended.labels(name).set(self._clock())

    def pass_failed(self, name: str) -> None:
        self._failed.labels(name).inc()


@contextmanager
def serving(metrics: WatchdogMetrics, address: tuple[str, int] | None) -> Generator[int | None]:
    """Serve them, from a thread, until the block ends. Gives the port. Raises Conflict when it cannot be used."""
    if address is None:
        yield None
        return
    host, port = address
    try:
        server, thread = start_http_server(port, host, registry=metrics.registry)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise Conflict(f"{host}:{port} cannot be listened on: {reason}", hint="Pass another --metrics.") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
