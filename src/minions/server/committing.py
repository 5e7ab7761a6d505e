"""Committing: parts that arrive together share one statement, and a repeated call gets the same answer."""

from __future__ import annotations

from typing import Any

from minions.domain.errors import AcquirementLost, Conflict, Unavailable
from minions.domain.pins import differences
from minions.domain.subtask import PartCommit
from minions.runtime.gather import Gatherer
from minions.server.acquiring import HotConnections
from minions.store import acquirements, retries, second_starts, tasks
from minions.store.database import GONE, Connection, Database


class CommitDesk:
    """Accepts parts."""

    def __init__(self, database: Database, *, workers: int = 2) -> None:
        self._database = database
        self._connections = HotConnections(database)
        self._gatherer: Gatherer[PartCommit, bool] = Gatherer(
            self._commit_together,
            workers=workers,
            group=lambda part: None,
            key=lambda part: part.acquirement_id,
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._gatherer.run()
        finally:
            await self._connections.close()

    async def commit(self, part: PartCommit) -> bool:
        """Whether the part was accepted now; False when the executor does not own the subtask or it does not fit."""
        return await self._gatherer.ask(part) or (part.is_job and await self._commit_second(part))

    async def _commit_second(self, part: PartCommit) -> bool:
        """A second start that ends first takes the job over, and is then like any other; both or nothing.

        It may have become the owner since it was refused: so the part is looked at again in any case.
        """
        try:
            async with self._database.transaction() as connection:
                await second_starts.take_over(connection, part.acquirement_id, part.executor_id)
                if not await _accept(connection, [part]):
                    raise AcquirementLost
        except AcquirementLost:
            return False
        return True

    async def commit_first(
        self, part: PartCommit, pin: dict[str, Any], weight_bytes: int | None
    ) -> tuple[bool, dict[str, Any] | None]:
        """Commit a part of a task that nobody has pinned yet: it fixes the pin, if it is accepted.

        weight_bytes: of the model, as this executor measured them.

        One transaction, so that an executor that lost its subtask fixes nothing. Returns (accepted, pin in force).
        """
        in_force: dict[str, Any] | None = None
        try:
            async with self._database.transaction() as connection:
                in_force = await tasks.pin_task(connection, part.task_id, pin, weight_bytes)
                if in_force is None or differences(in_force, pin):
                    raise Conflict
                if not await _accept(connection, [part]):
                    raise AcquirementLost
        except Conflict:
            return False, in_force
        except AcquirementLost:
            return False, None
        return True, in_force

    async def _commit_together(self, worker: int, parts: list[PartCommit]) -> list[bool | Exception]:
        try:
            connection = await self._connections.get(worker)
            accepted = await _accept(connection, parts)
        except GONE as error:
            await self._connections.drop(worker)
            raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
        except Unavailable:
            await self._connections.drop(worker)
            raise
        except Exception:
            if len(parts) == 1:
                raise
            # One part that the database refuses must not cost the others.
            answers: list[bool | Exception] = []
            for part in parts:
                try:
                    answers += await self._commit_together(worker, [part])
                except Exception as error:
                    answers.append(error)
            return answers
        return [part.acquirement_id in accepted for part in parts]


async def _accept(connection: Connection, parts: list[PartCommit]) -> set[int]:
    """The acquirements whose parts were accepted. Those of a retry are few, and each looks at what it replaces."""
    first = [part for part in parts if part.kept_rows is None]
    accepted = set(await acquirements.commit_parts(connection, first)) if first else set[int]()
    for part in parts:
        if part.kept_rows is not None and await retries.replace_part(connection, part):
            accepted.add(part.acquirement_id)
    return accepted
