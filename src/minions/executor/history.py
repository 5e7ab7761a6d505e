"""History: what ran on this machine, for whom, how long and how it ended; in a file of its owner, without any text."""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from minions.wire.executor import Assignment

log = logging.getLogger(__name__)

Ended = Literal["done", "released", "lost", "failed"]
_MOST_BYTES = 1 << 20
_KEPT_LINES = 2000  # after the file grew too long; about 400 kB


def _now() -> datetime:
    return datetime.now(UTC)


class History:
    """One line of JSON for each subtask that ended here; the oldest are dropped when the file grows too long."""

    def __init__(self, file: Path, *, now: Callable[[], datetime] = _now, most_bytes: int = _MOST_BYTES) -> None:
        self._file = file
        self._now = now
        self._most_bytes = most_bytes

    def add(
        self, assignment: Assignment, rows: int, dropped: int, seconds: float, ended: Ended, reason: str = ""
    ) -> None:
        """Note a subtask. rows: committed here; dropped: done here and not committed. A disk that is full costs the
        line, not the work."""
        line = {
            "at": self._now().isoformat(timespec="seconds"),
            "team": assignment.team,
            "project": assignment.project,
            "task_name": assignment.task_name,
            "subtask": assignment.subtask_id,
            "kind": assignment.kind,
            "model": assignment.model,
            "rows": rows,
            "dropped": dropped,
            "seconds": round(seconds, 1),
            "ended": ended,
            "reason": reason,
        }
        try:
            self._trim()
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as lines:
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            log.warning("the history at %s cannot be written: %s", self._file, (error.strerror or "").lower())

    def _trim(self) -> None:
        if not self._file.exists() or self._file.stat().st_size < self._most_bytes:
            return
        with self._file.open() as lines:
            kept = deque(lines, _KEPT_LINES)
        shorter = self._file.with_suffix(".new")
        with os.fdopen(os.open(shorter, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
            written.writelines(kept)
        shorter.replace(self._file)


def read_history(file: Path, most: int) -> list[dict[str, Any]]:
    """The latest entries, newest first; a line that was cut by a crash is left out."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            latest = deque(lines, most)
    except FileNotFoundError:
        return []
    found: list[dict[str, Any]] = []
    for line in reversed(latest):
        try:
            entry: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(cast("dict[str, Any]", entry))
    return found
