"""A private PostgreSQL for a test session: started once, a fresh database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
import pytest

from minions.domain.errors import Conflict
from minions.local.postgres import EmbeddedPostgres, binaries
from tests.services.directories import held, of_killed_sessions

_PREFIX = "minions-test-postgres-"
# Nothing here outlives the session, so nothing has to reach the disk; the rest is as deployed.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}


class PostgresService:
    """The running server: makes databases, and can be killed and restarted under a test's feet."""

    def __init__(self, directory: Path) -> None:
        self._server = EmbeddedPostgres(directory, settings=_SETTINGS)
        self._numbers = itertools.count(1)
        self._templates: set[str] = set()

    @property
    def pid(self) -> int | None:
        """The postmaster; None while it is not running."""
        return self._server.pid

    @property
    def log(self) -> Path:
        """PostgreSQL's log."""
        return self._server.log

    def start(self) -> None:
        """Start it, or start it again; URLs stay the same."""
        self._server.start()

    def stop(self) -> None:
        """Shut down cleanly."""
        self._server.stop()

    def restart(self) -> None:
        """A clean restart: every connection is lost, nothing else."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """kill -9 of the postmaster; `start` brings it back through crash recovery."""
        assert self._server.pid is not None
        os.kill(self._server.pid, signal.SIGKILL)
        self._server.stop()

    @contextmanager
    def frozen(self) -> Generator[None]:
        """While the block lasts, connections stay open, new ones are taken by the kernel, and nobody answers."""
        assert self._server.pid is not None
        postmaster = psutil.Process(self._server.pid)
        stopped = [postmaster]
        postmaster.suspend()  # first, so that no child is born after they were listed
        try:
            for child in postmaster.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.suspend()
                    stopped.append(child)
            yield
        finally:
            for process in reversed(stopped):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def url(self, database: str = "postgres") -> str:
        """Where to reach a database, for asyncpg and for psql."""
        return urlsplit(self._server.url)._replace(path=f"/{database}").geturl()

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run statements with psql; returns what it prints, unaligned and without headers."""
        argv = [str(binaries() / "psql"), "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", statement]
        done = subprocess.run([*argv, self.url(database)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def create_database(self, template: str = "template0") -> str:
        """Make a database that is a copy of the template (empty by default). Returns its URL."""
        name = f"test_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop it, whoever is still connected."""
        name = unquote(urlsplit(url).path.lstrip("/"))
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Make a template once per session: `prepare(url)` fills it. Returns its name, for `create_database`."""
        if name not in self._templates:
            self.sql(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
            prepare(self.url(name))
            self._templates.add(name)
        return name


def _clear_killed_runs() -> None:
    """Remove what killed sessions left; a living one holds its directory also while a test has its server down."""
    for directory in of_killed_sessions(_PREFIX):
        try:
            EmbeddedPostgres(directory, settings=_SETTINGS).clear()
        except (Conflict, OSError):
            continue
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresService]:
    """The session's PostgreSQL."""
    _clear_killed_runs()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    service = PostgresService(directory)
    try:
        with held(directory):
            service.start()
            yield service
    finally:
        service.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def database_url(postgres: PostgresService) -> Iterator[str]:
    """An empty database of its own; dropped afterwards."""
    url = postgres.create_database()
    yield url
    if postgres.pid is None:
        postgres.start()
    postgres.drop_database(url)
