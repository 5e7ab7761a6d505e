"""Settings of a watchdog, read once at the edge."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WatchdogSettings:
    """How a watchdog works.

    lease_seconds: an executor that holds subtasks and is silent for so long loses them; the same as the server's.
    silent_offline_seconds: one without subtasks is called offline after so long; more than two heartbeats.
    heartbeat_days: how long samples of executors are kept. metrics_address: where metrics are served; None: nowhere.
    """

    database_url: str = field(repr=False)
    lease_seconds: float = 90.0
    poll_seconds: float = 5.0
    check_seconds: float = 60.0
    heartbeat_days: float = 30.0
    silent_offline_seconds: float = 660.0
    metrics_address: tuple[str, int] | None = None
