"""The project that a verb is about: its root, its last run, its deployment, which may have to be started first."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minions.commands.services import needing
from minions.domain.errors import Conflict, NotFound

if TYPE_CHECKING:
    from minions.client.connection import AsyncConnection
    from minions.hosts.records import History
    from minions.hosts.run_directory import Run, RunDirectory


def here() -> RunDirectory:
    """The `.minions` of the project around the working directory. Raises NotFound."""
    from minions.hosts.project_file import find_root
    from minions.hosts.run_directory import RunDirectory

    return RunDirectory(find_root(Path.cwd()))


def last_run() -> tuple[RunDirectory, Run]:
    """The project and its last run. Raises NotFound."""
    directory = here()
    return directory, directory.read_run()


@asynccontextmanager
async def reached(directory: RunDirectory) -> AsyncGenerator[AsyncConnection]:
    """The deployment of the project: the one that runs, else started until the end of the block."""
    from minions.client.connection import AsyncConnection

    with needing("up"):
        from minions.local.up import LocalDeployment

    if not (directory.path / "postgres").exists():
        raise NotFound("nothing was run in this project yet", hint="`minions run` starts a run.")
    deployment = LocalDeployment(directory.path, port=0, executors=0)
    try:
        async with deployment:
            connection = AsyncConnection(deployment.server, deployment.token)
            try:
                yield connection
            finally:
                await connection.close()
    except Conflict:  # a run goes on
        said: Any = json.loads((directory.path / "connection.json").read_text("utf-8"))
        connection = AsyncConnection(said["server"], said["token"])
        try:
            yield connection
        finally:
            await connection.close()


async def history_of(directory: RunDirectory, run: Run) -> History:
    """What the ledger says of the jobs of a run."""
    from minions.hosts.records import read_history

    async with reached(directory) as connection:
        return await read_history(connection, {identity for _, identity in run.jobs})
