"""The data directory of an embedded deployment: who has it, its tokens, its logs, and what a killed run left."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from minions.domain.errors import Conflict, MinionsError
from minions.runtime.locks import hold, lock_holder

CONNECTION = "connection.json"
_LOGS_KEPT = 3
_CLOCK_SECONDS = 2.0  # a clock that is set while processes run shifts what it says of their start
_LEFTOVER_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two secrets of an embedded deployment; they stay the same from start to start."""

    admin: str = field(repr=False)
    executor: str = field(repr=False)


class DataDirectory:
    """Everything that an embedded deployment keeps. Its methods block for a few milliseconds only."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: IO[str] | None = None

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    @property
    def is_new(self) -> bool:
        """Whether its database has still to be made."""
        return not (self.postgres / "data").exists()

    def refuse_second(self) -> None:
        """Raises Conflict when another has it, saying where that one runs. Makes nothing."""
        with contextlib.suppress(OSError):  # what is no directory, or not ours, is refused by `claim`
            if (holder := lock_holder(self.path / "lock")) is not None:
                raise self._taken(holder)

    def claim(self) -> None:
        """Take it until `release`, or until this process dies. Raises Conflict, as `refuse_second` does."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = hold(self.path / "lock")
        except OSError as error:
            raise MinionsError(
                f"{self.path} cannot be used: {(error.strerror or '').lower()}",
                hint="Choose another place with --data or MINIONS_DATA.",
            ) from None
        if self._lock is None:
            raise self._taken(lock_holder(self.path / "lock"))

    def _taken(self, holder: int | None) -> Conflict:
        at = self._server()
        return Conflict(
            f"Minions already runs on {self.path}{f', at {at}' if at else ''} (process {holder or 'unknown'})",
            hint="Use that one, stop it first, or give this one its own --data and --port.",
        )

    def release(self) -> None:
        """Let another have it. Safe to call twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def tokens(self) -> Tokens:
        """The tokens, made at the first start."""
        place = self.path / "tokens.json"
        found = _read_object(place)
        if isinstance(found.get("admin"), str) and isinstance(found.get("executor"), str):
            return Tokens(found["admin"], found["executor"])
        tokens = Tokens(_new_secret(), _new_secret())
        _write_secret(place, {"admin": tokens.admin, "executor": tokens.executor})
        return tokens

    def write_connection(self, server: str, token: str) -> None:
        """Tell the command line and the SDK of this user where the server is."""
        _write_secret(self.path / CONNECTION, {"server": server, "token": token})

    def open_log(self, name: str) -> Path:
        """The place of a process's log; those of earlier starts are kept under numbers."""
        folder = self.path / "logs"
        folder.mkdir(exist_ok=True, mode=0o700)
        for number in range(_LOGS_KEPT, 0, -1):
            older = folder / (f"{name}.{number - 1}.log" if number > 1 else f"{name}.log")
            if older.exists():
                older.replace(folder / f"{name}.{number}.log")
        return folder / f"{name}.log"

    def note_processes(self, pids: list[int]) -> None:
        """Remember which processes are ours, in case this one is killed."""
        import psutil

        noted: list[dict[str, float]] = []
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                noted.append({"pid": pid, "started": psutil.Process(pid).create_time()})
        _write_secret(self.path / "processes.json", {"processes": noted}, durable=False)  # no machine's end to survive

    def end_leftovers(self) -> int:
        """End what a killed run left; returns how many. A pid alone proves nothing: its start and command must fit."""
        noted: list[Any] = _read_object(self.path / "processes.json").get("processes") or []
        if not noted:
            return 0
        import psutil

        left: list[psutil.Process] = []
        for entry in noted:
            with contextlib.suppress(psutil.Error, KeyError, TypeError):
                process = psutil.Process(entry["pid"])
                same = abs(process.create_time() - entry["started"]) < _CLOCK_SECONDS
                if same and "minions.commands.main" in process.cmdline():
                    process.terminate()
                    left.append(process)
        _, stubborn = psutil.wait_procs(left, _LEFTOVER_SECONDS)
        for process in stubborn:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(stubborn, _LEFTOVER_SECONDS)
        self.note_processes([])
        return len(left)

    def _server(self) -> str:
        with contextlib.suppress(MinionsError):
            return str(_read_object(self.path / CONNECTION).get("server", ""))
        return ""


def _new_secret() -> str:
    return "mns_" + secrets.token_urlsafe(32)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        return {}  # written by a machine that lost power; it is made anew
    except OSError as error:
        raise MinionsError(
            f"{path} cannot be read: {(error.strerror or '').lower()}", hint="Correct its owner or mode."
        ) from None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _write_secret(path: Path, content: dict[str, Any], *, durable: bool = True) -> None:
    """Readable by this user only, and whole or not at all."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    fresh.replace(path)
