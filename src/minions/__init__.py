"""Minions: one shared pool from the Macs a team already owns."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minions.client.async_client import AsyncClient
    from minions.client.client import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Import the SDK on first use: `import minions` must cost nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("minions.client"), name)
