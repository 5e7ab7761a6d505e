"""Outputs on their way to the coordinator: each fetched, checked and put into its place, several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from minions.client.connection import AsyncConnection, LinkRefused
from minions.domain.errors import MinionsError
from minions.hosts.outputs import PlaceTaken, put_in_place
from minions.hosts.run_directory import RunDirectory

_AT_ONCE = 8
_TRIES = 3
_FULL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """An output that is in the object store. place: of its job in the list of the run."""

    place: int
    identity: str
    output: str
    sha256: str
    is_directory: bool
    link: str
    is_executable: bool = False


class Deliveries:
    """Takes deliveries and brings them.

    on_done: told each that lies in its place. on_given_up: those that cannot, with the reason. say: told what people
    should know. refused: those whose links have expired, to be taken again with new ones.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        directory: RunDirectory,
        *,
        on_done: Callable[[Delivery], None],
        on_given_up: Callable[[Delivery, str], None],
        say: Callable[[str], None],
    ) -> None:
        self.refused: list[Delivery] = []
        self._connection = connection
        self._directory = directory
        self._on_done = on_done
        self._on_given_up = on_given_up
        self._say = say
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue()

    def take(self, delivery: Delivery) -> None:
        """Bring it when its turn comes."""
        self._waiting.put_nowait(delivery)

    async def run(self) -> None:
        """Bring what was taken, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._carry())

    async def settled(self) -> None:
        """Wait until nothing is on its way."""
        await self._waiting.join()

    async def _carry(self) -> None:
        while True:
            delivery = await self._waiting.get()
            try:
                if await self._bring(delivery):
                    self._directory.note_delivered([(delivery.identity, delivery.sha256)])
                    self._on_done(delivery)
            finally:
                self._waiting.task_done()

    async def _bring(self, delivery: Delivery) -> bool:
        failed = 0
        while True:
            try:
                await put_in_place(
                    self._directory.root,
                    delivery.output,
                    self._connection.blocks(delivery.link),
                    delivery.sha256,
                    is_directory=delivery.is_directory,
                    is_executable=delivery.is_executable,
                )
                return True
            except LinkRefused:
                self.refused.append(delivery)
                return False
            except OSError as error:  # a full disk, most likely: nothing is lost, and it goes on by itself
                if not failed:
                    why = (error.strerror or "").lower()
                    self._say(f"{delivery.output} cannot be written: {why}. Mend that; it is tried again by itself.")
                failed += 1
                await asyncio.sleep(_FULL_SECONDS)
            except MinionsError as error:
                failed += 1
                if isinstance(error, PlaceTaken) or failed >= _TRIES:
                    self._on_given_up(delivery, error.message)
                    return False
