"""Processes on the host: those that end with the connection, those that outlive it, and who holds a lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from typing import IO

from minions.hosts.agent.files import tail
from minions.hosts.agent.requests import MOST_BODY_BYTES, Refused, Reply, Request, absolute, tools_path

_GRACE_SECONDS = 3.0
_POLL_SECONDS = 0.05
_TAIL_BYTES = 8192
_running: set[subprocess.Popen[bytes]] = set()


def run(request: Request, body: bytes) -> tuple[Reply, bytes]:
    """Run a program to its end, and tell how it ended and what it wrote. It does not outlive the connection.

    lock: a file that is locked meanwhile. unless: nothing is run when this exists. log: where both streams go; the tail
    is in `stderr`. Without a log, stdout is the body, and cut at its bound.
    """
    with _held(request.get("lock")), tempfile.TemporaryFile() as out:
        unless = request.get("unless")
        if unless and os.path.exists(absolute(unless)):
            return {"skipped": True, "code": 0, "late": False, "truncated": False, "stderr": ""}, b""
        log = request.get("log")
        with _opened_log(absolute(log)) if log else tempfile.TemporaryFile() as said:
            child = _spawn(request, said if log else out, said)
            _running.add(child)
            try:
                late = _feed_and_wait(child, body, request.get("timeout_seconds"))
            finally:
                _running.discard(child)
            if not log:
                said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL_BYTES))
            stderr = tail(absolute(log)) if log else said.read().decode("utf-8", "replace")
        reply = {"skipped": False, "code": child.returncode, "late": late, "stderr": stderr}
        reply["truncated"] = out.seek(0, os.SEEK_END) > MOST_BODY_BYTES
        out.seek(0)
        return reply, out.read(MOST_BODY_BYTES)


def start(request: Request, body: bytes) -> Reply:
    """Start a program that outlives the connection; the body is its stdin, and is kept nowhere else."""
    with _opened_log(absolute(request["log"])) as said:
        child = _spawn(request, said, said)
    threading.Thread(target=_feed_and_wait, args=(child, body, None), daemon=True).start()
    return {"pid": child.pid}


def lock(request: Request, _: bytes) -> Reply:
    """Whether somebody holds the lock, and what the holder wrote into the file."""
    path = absolute(request["path"])
    return {"held": _is_held(path), "text": tail(path) if os.path.exists(path) else ""}


def end(request: Request, _: bytes) -> Reply:
    """End the process that holds a lock and wrote its pid there: TERM, after a while KILL."""
    path = absolute(request["path"])
    how = "not_running"
    for number, name, seconds in (
        (signal.SIGTERM, "term", float(request["seconds"])),
        (signal.SIGKILL, "kill", _GRACE_SECONDS),
    ):
        pid = _holder(path)
        if pid is None:
            return {"how": how}
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a stopped process would not hear TERM
        how = name
        deadline = time.monotonic() + seconds
        while _is_held(path) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    if _is_held(path):
        raise Refused("still_running", f"the process that holds {path} does not end")
    return {"how": how}


def end_all() -> None:
    """End what `run` has started; what was started to live on is left alone."""
    ending = set(_running)
    for child in ending:
        _signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while ending:
        is_over = time.monotonic() >= deadline
        for child in [each for each in ending if is_over or each.poll() is not None]:
            _kill_group(child)
            ending.discard(child)
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _held(path: str | None) -> Generator[None, None, None]:
    """Wait for the lock on a file, and hold it. None: nothing is locked."""
    if path is None:
        yield
        return
    path = absolute(path)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_held(path: str) -> bool:
    """Whether a living process holds the lock: the lock counts, not that the file exists."""
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            return True
    return False


def _holder(path: str) -> int | None:
    """The pid in the file; it is the holder's, since the lock was held before and after the reading."""
    if not _is_held(path):
        return None
    text = tail(path)
    if not _is_held(path):
        return None
    try:
        return int(json.loads(text)["pid"])
    except (ValueError, KeyError, TypeError):
        raise Refused("unknown_holder", f"{path} is locked, but does not say by which process") from None


def _opened_log(path: str) -> IO[bytes]:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _spawn(request: Request, stdout: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = dict(os.environ, PATH=tools_path(request.get("path", ())))
    for name, value in request.get("environment", {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    argv: list[str] = request["argv"]
    program = os.path.expanduser(argv[0])
    if os.sep not in program:
        program = shutil.which(program, path=environment["PATH"])
    if program is None:
        raise Refused("no_program", f"{argv[0]} is not installed, or not on the PATH")
    return subprocess.Popen(
        [program, *argv[1:]],
        cwd=absolute(request.get("directory", "~")),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def _feed_and_wait(child: subprocess.Popen[bytes], body: bytes, timeout_seconds: float | None) -> bool:
    """Give it its stdin, and wait. True when it was ended because its time was over."""
    threading.Thread(target=_feed, args=(child, body), daemon=True).start()
    try:
        child.wait(timeout_seconds)
        return False
    except subprocess.TimeoutExpired:
        _signal_group(child, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
        _kill_group(child)
        child.wait()
        return True


def _feed(child: subprocess.Popen[bytes], body: bytes) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended, or closed its stdin; its exit code tells what that means
        child.stdin.write(body)
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Others of a group may not have heard the TERM that ended its leader. While they live, its number is theirs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
