"""Pruning: what was made on a host for earlier commits is removed, the one used longest ago first."""

from __future__ import annotations

import json
from typing import Any, cast

from minions.hosts.checkout import Checkout
from minions.hosts.connection import Connection
from minions.hosts.faults import RequestFailed

_ABANDONED_SECONDS = 3600.0  # longer than git may take to make one
_MOST_SAID_BYTES = 1 << 20


async def prune(connection: Connection, checkout: Checkout) -> list[str]:
    """Keep as many worktrees of this project as the host should, and as many environments, and those in use.

    A worktree is in use while somebody holds its lock; an environment while a worktree that is kept needs it, or
    somebody installs into it. Each was touched when it was used last. Returns what was removed, for people.
    """
    home, _, name = checkout.directory.rpartition("/worktrees/")
    worktrees = await _directories(connection, f"{home}/worktrees")
    removed = [
        f"worktree {old[:12]}"
        for old in _too_many(worktrees, connection.host.keep)
        if old != name and await _discard(connection, f"{home}/worktrees/{old}")
    ]
    environments = await _directories(connection, f"{home}/environments")
    old_environments = _too_many(environments, connection.host.keep)
    if old_environments:
        needed = await _needed(connection, f"{home}/worktrees")
        for old in old_environments:
            place = f"{home}/environments/{old}"
            if place not in needed and await _discard(connection, place):
                removed.append(f"environment {old}")
    return removed


def _too_many(changed: dict[str, float], keep: int) -> list[str]:
    """The names beyond the bound, by the host's clock, and what somebody began to make and left."""
    latest = sorted((name for name in changed if not name.startswith(".")), key=changed.__getitem__, reverse=True)
    now = max(changed.values(), default=0.0)  # one has just been touched
    left = [name for name, when in changed.items() if name.startswith(".") and when < now - _ABANDONED_SECONDS]
    return latest[keep:] + left


async def _directories(connection: Connection, place: str) -> dict[str, float]:
    """When each was changed last."""
    reply, _ = await connection.request("entries", {"path": place})
    found = cast("dict[str, dict[str, Any] | None]", reply["entries"])
    return {name: about["changed"] for name, about in found.items() if about and about["kind"] == "directory"}


async def _discard(connection: Connection, place: str) -> bool:
    """Remove a directory with its logs and marks, unless somebody holds its lock. Whether it was."""
    return bool((await connection.request("discard", {"path": place}))[0]["done"])


async def _needed(connection: Connection, worktrees: str) -> set[str]:
    """The environments that jobs in these worktrees find."""
    found: set[str] = set()
    for name in await _directories(connection, worktrees):
        asked = {"path": f"{worktrees}/{name}.surroundings.json", "offset": 0, "length": _MOST_SAID_BYTES}
        try:
            _, said = await connection.request("get", asked)
        except RequestFailed as error:
            if error.kind == "ENOENT":  # nothing is installed there yet
                continue
            raise
        found.add(json.loads(said)["variables"].get("VIRTUAL_ENV", ""))
    return found
