"""What the agent can tell about its machine. None: it cannot be told."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from minions.hosts.agent.login import read_ends_with_session
from minions.hosts.agent.requests import Reply, Request, absolute, tools_path

_ANSWER_SECONDS = 10
_COUNT_SECONDS = 5.0


def facts(request: Request, _: bytes) -> Reply:
    """For `minions hosts check`; the disk is the one on which `place` is, or will be. kept: a directory of which it is
    told how much it takes."""
    path = tools_path(request.get("path", ()))
    place = absolute(request["place"])
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    room = shutil.disk_usage(place)
    return {
        "release": platform.mac_ver()[0] or platform.release(),
        "chip": _chip(),
        "processors": os.cpu_count(),
        "disk_free_bytes": room.free,
        "kept_bytes": _size(absolute(request["kept"])) if "kept" in request else None,
        "writable": os.access(place, os.W_OK),
        "ends_with_session": read_ends_with_session() if "kept" in request else None,
        "clock": time.time(),
        "tools": {name: _version(name, path) for name in request["tools"]},
    }


def greeting() -> Reply:
    """What a connection knows of its host from the beginning."""
    return {
        "minions_agent": 1,
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "system": platform.system(),
        "machine": platform.machine(),
        "home": os.path.expanduser("~"),
    }


def _size(directory: str) -> int | None:
    """What a directory takes on the disk; None when counting takes too long. A file with two names counts once."""
    deadline = time.monotonic() + _COUNT_SECONDS
    total, waiting = 0, [directory]
    seen: set[tuple[int, int]] = set()
    while waiting:
        if time.monotonic() > deadline:
            return None
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [(entry.path, entry.is_dir(follow_symlinks=False), os.lstat(entry.path)) for entry in entries]
        except OSError:  # it is not there, or is just being removed
            continue
        for path, is_directory, about in found:
            if about.st_nlink == 1 or is_directory or (about.st_dev, about.st_ino) not in seen:
                total += about.st_blocks * 512
            if is_directory:
                waiting.append(path)
            else:
                seen.add((about.st_dev, about.st_ino))
    return total


def _said(argv: Sequence[str]) -> str | None:
    """The first line that a program says."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def _version(name: str, path: str) -> str | None:
    program = shutil.which(name, path=path)
    return None if program is None else _said([program, "--version"])


def _chip() -> str | None:
    if platform.system() == "Darwin":
        return _said(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        return None
    return names[0] or None if names else None
