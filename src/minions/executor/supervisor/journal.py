"""The journal of one launcher: an append-only file of records, flushed once for all jobs that start together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from minions.executor.supervisor.record import LauncherRecord, Record, gone_line, launcher_line, started_line

SUFFIX = ".journal"
_REWRITE_BYTES = 1 << 20


class JournalFile:
    """Made with the first record; removed by whoever finds that nothing is left of its jobs."""

    def __init__(self, directory: Path, launcher: LauncherRecord, rewrite_bytes: int = _REWRITE_BYTES) -> None:
        self._path = directory / f"{launcher.token}{SUFFIX}"
        self._first_line = launcher_line(launcher)
        self._rewrite_bytes = rewrite_bytes
        self._open_records: dict[str, bytes] = {}
        self._descriptor: int | None = None
        self._size = 0

    def started(self, records: Sequence[Record]) -> None:
        """Write the records down; on the disk when this returns. Raises OSError, and nothing of them stays then."""
        lines = {record.token: started_line(record) for record in records}
        if self._descriptor is None or self._size > self._rewrite_bytes:
            self._rewrite([*self._open_records.values(), *lines.values()])
        else:
            self._append(self._descriptor, b"".join(lines.values()))
        self._open_records |= lines

    def gone(self, token: str) -> None:
        """Nothing is left of the job. Not flushed, and a full disk does not matter: the next sweep sees for itself."""
        if self._open_records.pop(token, None) is None or self._descriptor is None:
            return
        line = gone_line(token)
        try:
            self._write(self._descriptor, line)
        except OSError:
            os.ftruncate(self._descriptor, self._size)

    def remove(self) -> None:
        """Drop the file when no job stands in it."""
        if self._descriptor is not None and not self._open_records:
            self._path.unlink(missing_ok=True)

    def _append(self, descriptor: int, lines: bytes) -> None:
        """fsync, not F_FULLFSYNC: after a power cut none of these processes is there any more."""
        before = self._size
        try:
            self._write(descriptor, lines)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            self._size = before
            raise

    def _write(self, descriptor: int, lines: bytes) -> None:
        written = os.write(descriptor, lines)
        if written < len(lines):  # a full disk takes a part first, and says so only at the next try
            os.write(descriptor, lines[written:])
        self._size += len(lines)

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        """Only what is open, in a new file under the old name."""
        temporary = self._path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        previous_size, self._size = self._size, 0
        try:
            self._append(descriptor, b"".join([self._first_line, *lines]))
            os.replace(temporary, self._path)
            _flush_directory(self._path.parent)
        except OSError:
            os.close(descriptor)
            self._size = previous_size
            raise
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = descriptor


def _flush_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
