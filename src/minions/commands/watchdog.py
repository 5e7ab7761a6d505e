"""minions watchdog."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import services


def command(
    database_url: services.DatabaseUrl,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            metavar="SECONDS",
            envvar="MINIONS_LEASE",
            min=1,
            help="An executor that is silent for so long loses its subtasks; the same as the server's.",
        ),
    ] = 90.0,
    log_json: services.LogJson = False,
    parent_fd: services.ParentFd = None,
) -> None:
    """Run a Minion Watchdog until SIGTERM or Ctrl-C: it gives back what silent executors hold.

    Run two for a deployment that must not stop; one of them works, the other waits.
    """
    services.begin(parent_fd, log_json)
    from minions.watchdog.main import watch
    from minions.watchdog.settings import WatchdogSettings

    settings = WatchdogSettings(database_url=services.given_database_url(database_url), lease_seconds=lease)
    services.run_service(lambda: watch(settings), uvloop=True)
