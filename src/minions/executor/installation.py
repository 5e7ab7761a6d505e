"""What an installed executor keeps on this machine: its token, its owner's file, its state and its models."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.executor.identity import own_state
from minions.executor.model_cache import size_of
from minions.executor.owner_file import template, write
from minions.executor.places import (
    CIRCUIT_FILE,
    CONTROL_FILE,
    ENGINE_LOG_FILE,
    HISTORY_FILE,
    INSTANCE_FILE,
    LOCK_FILE,
    LOG_FILE,
    ORDER_FILE,
    PREFERENCES_FILE,
    SERVICE_LOG_FILE,
    TOKEN_FILE,
)
from minions.executor.service_files import Flags

# What the shell has and a service has not, and what loading a model depends on. No secrets.
_CARRIED = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "NO_PROXY", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")
_OF_STATE = (
    CIRCUIT_FILE, CONTROL_FILE, ENGINE_LOG_FILE, f"{ENGINE_LOG_FILE}.1", HISTORY_FILE, INSTANCE_FILE, LOG_FILE,
    f"{LOG_FILE}.1", ORDER_FILE, PREFERENCES_FILE, SERVICE_LOG_FILE, TOKEN_FILE, LOCK_FILE,
)  # fmt: skip
_OF_CACHE = ("hf", "objects", "index", "digests.json")


@dataclass(frozen=True, slots=True)
class Places:
    """Where an executor keeps what is its own."""

    state: Path
    cache: Path
    owner_file: Path

    @property
    def token_file(self) -> Path:
        return self.state / TOKEN_FILE


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is there. paths: only what an executor made; a directory may hold other things as well."""

    what: str
    place: Path
    paths: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        return sum(size_of(path) if path.is_dir() else path.lstat().st_size for path in self.paths)


def program() -> tuple[str, ...]:
    """What starts this very installation, whatever the PATH of a service is."""
    script = Path(sys.executable).with_name("minions")
    return (str(script),) if os.access(script, os.X_OK) else (sys.executable, "-m", "minions.commands.main")


def carried(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the shell that the service needs as well."""
    return {name: environment[name] for name in _CARRIED if environment.get(name)}


def merged(before: Flags, given: Mapping[str, Sequence[str] | None]) -> Flags:
    """The flags of the service: those that are given, else what they were before."""
    flags: list[tuple[str, str]] = []
    for name, values in given.items():
        known = [value for flag, value in before if flag == name]
        flags += [(name, value) for value in (known if values is None else values)]
    return tuple(flags)


def keep_token(file: Path, token: str) -> None:
    """Write the token where only this user reads it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = file.with_name(f".{file.name}.new")
    unfinished.unlink(missing_ok=True)  # one that was left behind keeps its mode
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as written:
        written.write(f"{token}\n")
    unfinished.replace(file)


def ensure_owner_file(file: Path) -> bool:
    """An owner's file with the defaults where there is none. True: it was made now."""
    if file.exists():
        return False
    write(file, template())
    return True


def kept(places: Places) -> list[Kept]:
    """What would stay behind."""
    wanted = [
        Kept("models", places.cache, tuple(places.cache / name for name in _OF_CACHE)),
        Kept("identity, history and logs", places.state, tuple(places.state / name for name in _OF_STATE)),
        Kept("the owner's file", places.owner_file, (places.owner_file,)),
    ]
    found = (
        Kept(each.what, each.place, tuple(path for path in each.paths if os.path.lexists(path))) for each in wanted
    )
    return [each for each in found if each.paths]


def purge(places: Places) -> None:
    """Delete all of it, and the directories if nothing else is in them. Raises Conflict while an executor runs."""
    with own_state(places.state):
        for path in (path for each in kept(places) for path in each.paths):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for directory in (places.cache, places.state):
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
