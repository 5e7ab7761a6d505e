"""The deployment: everything that routes and background loops of a server work with."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minions.domain.errors import NotFound, Unavailable
from minions.domain.names import public_id
from minions.domain.silence import offline_seconds
from minions.domain.task import Task
from minions.objects.base import ObjectStore
from minions.objects.closed import ClosedPlaces
from minions.objects.files import FileObjects
from minions.objects.open import folder_of_objects, open_objects
from minions.objects.s3 import S3Settings
from minions.server.access import Access
from minions.server.acquiring import AcquireDesk
from minions.server.background.supervise import Supervisor
from minions.server.committing import CommitDesk
from minions.server.counters import Counters
from minions.server.doorbell import Doorbell
from minions.server.inputs import Inputs
from minions.server.sessions import Sessions
from minions.server.settings import ServerSettings
from minions.server.tallies import Tallies
from minions.server.watched import Watched
from minions.store import access as access_table
from minions.store import tasks
from minions.store.database import Connection, Database
from minions.store.migrations import migrate

_TASKS_REMEMBERED = 4096


@dataclass(slots=True)
class Deployment:
    """One server's parts.

    link_secret: signs links to objects that are files. subtask_ended: set when the finisher may find something to do.
    pins: what the first parts of tasks fixed, remembered so that a commit need not ask.
    """

    settings: ServerSettings
    database: Database
    objects: ObjectStore
    inputs: Inputs
    access: Access
    sessions: Sessions
    doorbell: Doorbell
    acquiring: AcquireDesk
    committing: CommitDesk
    link_secret: bytes
    counters: Counters
    watched: Watched
    supervisor: Supervisor = field(default_factory=Supervisor)
    subtask_ended: asyncio.Event = field(default_factory=asyncio.Event)
    pins: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    tallies: Tallies = field(default_factory=Tallies)
    _tasks: OrderedDict[int, Task] = field(default_factory=OrderedDict[int, Task])

    @property
    def object_files(self) -> FileObjects | None:
        """The deployment's own store, if it is a folder that this server must serve by signed links."""
        return self.objects if isinstance(self.objects, FileObjects) else None

    async def unchanging(self, task_id: int) -> Task:
        """A task for what never changes in it (names, model, specification); its state may be old."""
        task = self._tasks.get(task_id)
        if task is None:
            async with self.database.connection() as connection:
                task = await read_task(connection, task_id)
            self._tasks[task_id] = task
            if len(self._tasks) > _TASKS_REMEMBERED:
                self._tasks.popitem(last=False)
        return task


async def read_task(connection: Connection, task_id: int) -> Task:
    """A task as it is now. Raises NotFound."""
    task = await tasks.read_task(connection, task_id)
    if task is None:
        raise NotFound(f"there is no task {public_id('tsk', task_id)}")
    return task


async def _look_at_objects(objects: ObjectStore, settings: ServerSettings) -> None:
    try:
        await objects.check_writable()
    except Unavailable as error:
        if error.advice == Unavailable.hint:  # it speaks of requests; nothing was asked for here
            error.advice = f"Start the object store, or correct --objects, which names {settings.objects}" + (
                f", or --s3-endpoint, which names {settings.s3_endpoint}." if settings.s3_endpoint else "."
            )
        raise


@asynccontextmanager
async def open_deployment(settings: ServerSettings) -> AsyncGenerator[Deployment]:
    """Migrate the database, open all parts, and close them at the end. Raises Unavailable, Conflict, ValueError."""
    await migrate(settings.database_url, settings.label)
    database = await Database.open(settings.database_url, connections=settings.connections)
    try:
        async with database.connection() as connection:
            secret = (await access_table.read_deployment(connection)).link_secret
            await access_table.note_serving(connection, settings.lease_seconds)
            await access_table.leap_ids(connection)
            offline_after = offline_seconds(settings.heartbeat_seconds)
            await access_table.note_patience(connection, settings.lease_seconds, offline_after)
        s3 = S3Settings(endpoint=settings.s3_endpoint, region=settings.s3_region)
        objects = open_objects(settings.objects, link_secret=secret, base_url="", s3=s3)
        await _look_at_objects(objects, settings)
        doorbell = Doorbell(database)
        counters = Counters()
        yield Deployment(
            settings=settings,
            database=database,
            objects=objects,
            inputs=Inputs(
                objects,
                s3=s3,
                accepts_files=settings.accepts_files,
                link_secret=secret,
                closed=ClosedPlaces(map(Path, settings.closed), folder_of_objects(settings.objects)),
            ),
            access=Access(database),
            sessions=Sessions(database),
            doorbell=doorbell,
            acquiring=AcquireDesk(database, doorbell, counters),
            committing=CommitDesk(database),
            link_secret=secret,
            counters=counters,
            watched=Watched(settings.watchdog_patience_seconds),
        )
    finally:
        await database.close()
