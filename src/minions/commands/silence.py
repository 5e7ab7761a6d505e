"""Executors that fell silent, as the command line tells of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.wire.tasks import ExecutorView


def why(view: ExecutorView, moment: datetime) -> str:
    """Why an executor is as it is, with the time of this machine's clock."""
    from minions.domain.phrases import clock
    from minions.domain.silence import told

    return told(view.state, view.reason, clock(view.last_seen_at, moment.astimezone()), view.holds)


def say_if_unwatched(client: Client, views: Iterable[ExecutorView]) -> None:
    """Say that no watchdog runs, if one of these executors holds what only a watchdog takes from it."""
    from minions.commands.output import to_stderr
    from minions.domain.silence import NO_WATCHDOG, NO_WATCHDOG_ADVICE, still_holds

    if any(still_holds(view.state, view.holds) for view in views) and client.server().watchdog is False:
        to_stderr(f"{NO_WATCHDOG}. {NO_WATCHDOG_ADVICE}")
