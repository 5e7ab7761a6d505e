"""The Python SDK: hand in batches, wait for them, and read their results, blocking or async."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minions.client.async_client import AsyncClient
    from minions.client.async_task import AsyncTask
    from minions.client.client import Client
    from minions.client.faults import NotInstalled, ResultsIncomplete, WaitTimedOut
    from minions.client.seen_task import Counts, RowError
    from minions.client.task import Task

__all__ = [
    "AsyncClient",
    "AsyncTask",
    "Client",
    "Counts",
    "NotInstalled",
    "ResultsIncomplete",
    "RowError",
    "Task",
    "WaitTimedOut",
]

_HOMES = {
    "AsyncClient": "async_client",
    "AsyncTask": "async_task",
    "Client": "client",
    "Counts": "seen_task",
    "NotInstalled": "faults",
    "ResultsIncomplete": "faults",
    "RowError": "seen_task",
    "Task": "task",
    "WaitTimedOut": "faults",
}


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import minions` loads neither httpx nor pyarrow."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"minions.client.{home}"), name)
