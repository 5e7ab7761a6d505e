"""Minions: one shared pool from the Macs a team already owns."""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true: not even `typing` is imported
if TYPE_CHECKING:
    from typing import Any

    from minions.client.async_client import AsyncClient
    from minions.client.client import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Import the SDK on first use: `import minions` must cost nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("minions.client"), name)
