"""Asks a program or a file of the system; what does not answer is None."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SECONDS = 2.0


def ask(*command: str) -> str | None:
    """What a program of the system prints; None when it is not there, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def text_of(path: Path | str) -> str | None:
    """What a small file holds; None when it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return None
