"""Runs: the jobs that an executor of commands owns until the server knows how they ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from minions.domain.errors import Conflict
from minions.executor.commands.messages import Assigned
from minions.executor.commands.outbox import Kept


class NotSwept(Conflict):
    """Processes of earlier jobs are still there."""

    code = "not_swept"
    hint = "End them, then start this executor again: until then their jobs are given to nobody."


@dataclass(slots=True, eq=False)
class Run:
    """A job that this executor owns. occupies: whether it takes a slot; afterwards it is only delivered."""

    assigned: Assigned
    task: asyncio.Task[None] | None = None
    occupies: bool = True
    kept: Kept | None = None
    is_lost: bool = False


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel them, and wait until they are over."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
