"""Committing: parts that arrive together share one statement, and a repeated call gets the same answer."""

from __future__ import annotations

from minions.domain.errors import AcquirementLost, Conflict, Unavailable
from minions.domain.subtask import PartCommit
from minions.runtime.gather import Gatherer
from minions.server.acquiring import HotConnections
from minions.store import acquirements, tasks
from minions.store.database import GONE, Database


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
        return await self._gatherer.ask(part)

    async def commit_first(self, part: PartCommit, pin: dict[str, str]) -> tuple[bool, dict[str, str] | None]:
        """Commit a part of a task that nobody has pinned yet: it fixes the pin, if it is accepted.

        One transaction, so that an executor that lost its subtask fixes nothing. Returns (accepted, pin in force).
        """
        in_force: dict[str, str] | None = None
        try:
            async with self._database.transaction() as connection:
                in_force = await tasks.pin_task(connection, part.task_id, pin)
                if in_force != pin:
                    raise Conflict
                if not await acquirements.commit_parts(connection, [part]):
                    raise AcquirementLost
        except Conflict:
            return False, in_force
        except AcquirementLost:
            return False, None
        return True, pin

    async def _commit_together(self, worker: int, parts: list[PartCommit]) -> list[bool | Exception]:
        try:
            connection = await self._connections.get(worker)
            accepted = await acquirements.commit_parts(connection, parts)
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
