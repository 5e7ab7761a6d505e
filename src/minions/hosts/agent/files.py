"""Files on the host: put, got, described and removed; a file has its name only once its hash is right."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from typing import Any

from minions.hosts.agent.requests import MOST_BODY_BYTES, Refused, Reply, Request, absolute

_TAIL_BYTES = 8192
_FULL_FLUSH = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


def put_begin(request: Request, _: bytes) -> Reply:
    """Where to go on with a file that was begun before; `done` when it is there already."""
    target = _with_directory(request["path"])
    part = _part_of(target, request["sha256"])
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        if os.path.getsize(target) == request["size"] and digest(target) == request["sha256"]:
            os.chmod(target, request["mode"])
            return {"done": True, "offset": request["size"]}
    with open(part, "ab") as file:
        os.fchmod(file.fileno(), 0o600)
        if file.tell() > request["size"]:
            file.truncate(0)
        return {"done": False, "offset": os.fstat(file.fileno()).st_size}


def put_data(request: Request, body: bytes) -> Reply:
    """The next piece, at its offset."""
    with open(_part_of(absolute(request["path"]), request["sha256"]), "rb+") as file:
        file.seek(request["offset"])
        file.write(body)
    return {}


def put_end(request: Request, _: bytes) -> Reply:
    """Give the file its name. Raises Refused, and forgets what arrived, when its hash is another."""
    target = absolute(request["path"])
    part = _part_of(target, request["sha256"])
    if digest(part) != request["sha256"]:
        os.unlink(part)
        raise Refused("damaged", f"what arrived for {target} has another hash")
    _settle(part, target, request["mode"])
    return {}


def get(request: Request, _: bytes) -> tuple[Reply, bytes]:
    """A piece of a file, and how large the whole is."""
    with open(absolute(request["path"]), "rb") as file:
        file.seek(request["offset"])
        return {"size": os.fstat(file.fileno()).st_size}, file.read(min(request["length"], MOST_BODY_BYTES))


def read_tail(request: Request, _: bytes) -> Reply:
    """The end of a log."""
    return {"text": tail(absolute(request["path"]), min(request["bytes"], MOST_BODY_BYTES))}


def write(request: Request, body: bytes) -> Reply:
    """A small file at once, readable by its owner only unless `mode` says more."""
    target = _with_directory(request["path"])
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".new-")
    with open(descriptor, "wb") as file:
        file.write(body)
    _settle(temporary, target, request.get("mode", 0o600))
    return {}


def describe(request: Request, _: bytes) -> Reply:
    """For each path its kind, size, time, and hash if asked; None for what is not there."""
    return {"found": [_described(absolute(path), request.get("hash", False)) for path in request["paths"]]}


def entries(request: Request, _: bytes) -> Reply:
    """The names in a directory, each described; none when there is no such directory."""
    directory = absolute(request["path"])
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return {"entries": {name: _described(os.path.join(directory, name), False) for name in names}}


def touch(request: Request, _: bytes) -> Reply:
    """Say that a file was used now."""
    os.utime(absolute(request["path"]))
    return {}


def link(request: Request, _: bytes) -> Reply:
    """A second name for a file, which stays when the first is pruned; or a symbolic link."""
    source, target = absolute(request["source"]), _with_directory(request["path"])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    (os.symlink if request.get("symbolic") else os.link)(source, target)
    return {}


def remove(request: Request, _: bytes) -> Reply:
    """Remove files and whole directories; what is not there is fine."""
    for path in map(absolute, request["paths"]):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, onerror=_make_writable)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return {}


def discard(request: Request, _: bytes) -> Reply:
    """Remove a directory and what lies beside it under its name (NAME.*), unless somebody holds the lock NAME.lock.

    Whoever waits for the lock meanwhile finds that the directory is gone. It loses its name first: what has one is
    whole, even if this is the last thing that the agent does.
    """
    path = absolute(request["path"])
    parent, name = os.path.split(path)
    with open(f"{path}.lock", "a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            return {"done": False}
        if not name.startswith("."):
            unnamed = tempfile.mkdtemp(dir=parent, prefix=".old-")
            os.rename(path, os.path.join(unnamed, name))
            path = unnamed
        beside = [os.path.join(parent, each) for each in os.listdir(parent) if each.startswith(f"{name}.")]
        remove({"paths": [path, *beside]}, b"")
    return {"done": True}


def digest(path: str) -> str:
    """The SHA-256 of a file, in hex."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def tail(path: str, size: int = _TAIL_BYTES) -> str:
    """The last bytes of a file, as text."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read().decode("utf-8", "replace")


def _with_directory(path: str) -> str:
    target = absolute(path)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    return target


def _part_of(target: str, sha256: str) -> str:
    """The begun file beside its target; its name carries the hash, so that no other content goes on with it."""
    return f"{target}.{sha256[:16]}.part"


def _settle(temporary: str, target: str, mode: int) -> None:
    """Give a finished file its name, so that it survives a power cut."""
    with open(temporary, "rb+") as file:
        os.fchmod(file.fileno(), mode)
        if _FULL_FLUSH is None:
            os.fsync(file.fileno())
        else:
            fcntl.fcntl(file.fileno(), _FULL_FLUSH)
    os.replace(temporary, target)
    directory = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _described(path: str, with_hash: bool) -> Reply | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    sha256 = digest(path) if with_hash and kind == "file" else None
    return {"kind": kind, "size": found.st_size, "changed": found.st_mtime, "sha256": sha256}


def _make_writable(function: Callable[[str], Any], path: str, _: Any) -> None:
    """Caches write-protect their directories; a removal must not stop there."""
    os.chmod(os.path.dirname(path), 0o700)
    if not os.path.islink(path):
        os.chmod(path, 0o700)
    function(path)
