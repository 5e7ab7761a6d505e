"""minions hosts abandon."""

from __future__ import annotations

import asyncio

from minions.commands.wishing import HostName


def command(name: HostName) -> None:
    """Hand the jobs of a host that does not come back to others.

    Also those that were cancelled and may still run there. Only for a host whose jobs do not run any more: a job that
    still ran there would run twice.
    """
    from minions.commands.abandoning import say_abandoned
    from minions.commands.project import here

    when = "" if here().coordinator() is not None else " No run goes on; the next `minions run` runs them."
    given_back, stopped = asyncio.run(_abandon(name))
    say_abandoned(name, given_back, stopped, when=when)


async def _abandon(name: str) -> tuple[int, int]:
    """How many jobs went back, and how many cancelled ones count as run no more. Raises NotFound."""
    from minions.client import calls
    from minions.commands.project import here, reached
    from minions.domain.errors import NotFound

    async with reached(here()) as connection:
        page = await connection.send(calls.executors(1000))
        found = [view for view in page.data if view.name == name]
        if not found:
            raise NotFound(f"no executor was ever named {name!r}", hint="`minions hosts ls` lists the hosts.")
        answers = [await connection.send(calls.abandon(view.id)) for view in found]
        return sum(answer.given_back for answer in answers), sum(answer.stopped for answer in answers)
