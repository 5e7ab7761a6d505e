"""Second starts: what runs longest runs in a second place as well, and whichever ends first counts."""

from __future__ import annotations

from collections.abc import Sequence

from minions.domain.subtask import Acquired
from minions.store.acquirements import acquired_of
from minions.store.database import Connection, one_of


async def start_second(
    connection: Connection,
    executor_id: int,
    lanes: Sequence[str],
    exclude: Sequence[int],
    teams: Sequence[str] | None,
) -> Acquired | None:
    """A second start for this executor, in these lanes and teams (None: all), if a task allows one.

    Its fence is like that of an acquirement, and all that is done with one can be done with it.
    """
    wanted = None if teams is None else list(teams)
    row = await one_of(connection, "start_second", executor_id, list(lanes), list(exclude), wanted)
    return None if row is None else acquired_of(row)


async def take_over(connection: Connection, acquirement_id: int, executor_id: int) -> bool:
    """Make this second start the owner of its subtask. False: it is none, or it is none any more."""
    return await one_of(connection, "take_over", acquirement_id, executor_id) is not None
