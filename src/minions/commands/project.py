"""The project that a verb is about: its root, its last run, its deployment, which may have to be started first."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minions.commands.services import needing
from minions.domain.errors import Conflict, NotFound

if TYPE_CHECKING:
    from minions.client.connection import AsyncConnection
    from minions.hosts.run_directory import Run, RunDirectory
    from minions.hosts.standings import Standings


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
    async with AsyncExitStack() as stack:
        try:
            deployment = await stack.enter_async_context(
                LocalDeployment(directory.path, port=0, executors=0, watchdog=False)
            )
            server, token = deployment.server, deployment.token
        except Conflict:  # a run goes on
            said: Any = json.loads((directory.path / "connection.json").read_text("utf-8"))
            server, token = said["server"], said["token"]
        connection = AsyncConnection(server, token)
        stack.push_async_callback(connection.close)
        yield connection


async def standings_of(directory: RunDirectory, run: Run) -> Standings:
    """What the ledger says of the jobs of a run."""
    from minions.hosts.job_list import JobList
    from minions.hosts.standings import read_standings

    jobs = run.jobs
    identities = jobs.identities() if isinstance(jobs, JobList) else (identity for _, identity in jobs)
    async with reached(directory) as connection:
        return await read_standings(connection, set(identities))
