"""Whether this server can do its work, and what is missing for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from minions.domain.errors import FieldError, MinionsError
from minions.server.deployment import Deployment
from minions.store import access, migrations

_OBJECTS_REMEMBERED_SECONDS = 30.0  # the check writes an object; load balancers ask every few seconds
_FAILURE_REMEMBERED_SECONDS = 3.0
_PATIENCE_SECONDS = 5.0

PARTS = ("database", "migrations", "objects", "loops")


class Readiness:
    """Asked by load balancers and supervisors. The object store was looked at when the deployment was opened."""

    def __init__(self, deployment: Deployment, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._monotonic = monotonic
        self._objects_missing: list[FieldError] = []
        self._objects_until = monotonic() + _OBJECTS_REMEMBERED_SECONDS
        self._looking = asyncio.Lock()

    async def missing(self, database_seconds: float | None = None) -> list[FieldError]:
        """All that is missing, by part: database, migrations, objects, loops; empty when the server is ready.

        database_seconds: for how long its answer is waited for, if not as long as an object store's.
        """
        patience = _PATIENCE_SECONDS if database_seconds is None else database_seconds
        database, objects = await asyncio.gather(self._database(patience), self._objects())
        return [*database, *objects, *self._loops()]

    async def standing(self, database_seconds: float) -> dict[str, bool]:
        """By part, whether it is there. Without its database, whether that has all migrations is not known."""
        missing = {each.field for each in await self.missing(database_seconds)}
        known = ("database", "objects", "loops") if "database" in missing else PARTS
        return {part: part not in missing for part in known}

    async def _database(self, patience_seconds: float) -> list[FieldError]:
        try:
            async with self._deployment.database.briefly(patience_seconds) as connection:
                await access.read_deployment(connection)
                unknown = await migrations.missing(connection)
        except MinionsError as error:
            return [FieldError("database", error.code, error.message)]
        if unknown:
            message = f"the database lacks {', '.join(unknown)}; start a server of this version to apply them"
            return [FieldError("migrations", "missing", message)]
        return []

    async def _objects(self) -> list[FieldError]:
        async with self._looking:
            if self._objects_until <= self._monotonic():
                self._objects_missing = await self._look_at_objects()
                remembered = _FAILURE_REMEMBERED_SECONDS if self._objects_missing else _OBJECTS_REMEMBERED_SECONDS
                self._objects_until = self._monotonic() + remembered
        return self._objects_missing

    async def _look_at_objects(self) -> list[FieldError]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._deployment.objects.check_writable()
        except TimeoutError:
            return [FieldError("objects", "unavailable", f"the object store did not answer in {_PATIENCE_SECONDS:g} s")]
        except MinionsError as error:
            return [FieldError("objects", error.code, error.message)]
        return []

    def _loops(self) -> list[FieldError]:
        if down := sorted(self._deployment.supervisor.down):
            message = f"not everything runs: {', '.join(down)}; see the server's log"
            return [FieldError("loops", "failed", message)]
        return []
