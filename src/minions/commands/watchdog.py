"""minions watchdog."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from minions.commands import services

log = logging.getLogger(__name__)

_LONGEST_POLL_SECONDS = 5.0


def command(
    database_url: services.DatabaseUrl,
    lease: Annotated[
        float,
        services.lease_option("An executor that is silent for so long loses its subtasks; the same as the server's."),
    ] = 90.0,
    heartbeat: Annotated[
        float,
        services.heartbeat_option(
            "How often executors report; the same as the server's. Two missed ones make one offline."
        ),
    ] = 300.0,
    heartbeat_days: Annotated[
        float,
        typer.Option(
            "--heartbeat-days",
            metavar="DAYS",
            envvar="MINIONS_HEARTBEAT_DAYS",
            min=0,
            help="How long samples of executors are kept for charts.",
        ),
    ] = 30.0,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            envvar="MINIONS_WATCHDOG_METRICS",
            help="Serve metrics for Prometheus here, without a token; they name no team.",
        ),
    ] = None,
    log_json: services.LogJson = False,
    parent_fd: services.ParentFd = None,
) -> None:
    """Run a Minion Watchdog, which gives back what silent executors hold.

    SIGTERM or Ctrl-C ends it. Run two for a deployment that must not stop; one of them works, the other waits.
    """
    services.begin(parent_fd, log_json)
    with services.needing("server"):
        from minions.domain.silence import offline_seconds
        from minions.watchdog.main import watch
        from minions.watchdog.settings import WatchdogSettings

    settings = WatchdogSettings(
        database_url=services.given_database_url(database_url),
        lease_seconds=lease,
        poll_seconds=min(_LONGEST_POLL_SECONDS, lease / 10),
        heartbeat_days=heartbeat_days,
        silent_offline_seconds=offline_seconds(heartbeat),
        metrics_address=_address(metrics) if metrics else None,
    )
    metrics_said = f", metrics at http://{metrics}/metrics" if metrics else ""
    log.info("watches the database %s; lease %g s%s", services.place_of(settings.database_url), lease, metrics_said)
    services.run_service(lambda: watch(settings), database_url=settings.database_url, uvloop=True)


def _address(text: str) -> tuple[str, int]:
    """Host and port. Raises ValidationFailed."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise services.invalid("--metrics", f"{text!r} is not HOST:PORT, as in 127.0.0.1:9464")
    return host.strip("[]"), int(port)
