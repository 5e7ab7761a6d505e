"""A pump: takes what a job prints from a pipe, as fast and as long as it prints, into a file that is bounded."""

from __future__ import annotations

import os

from minions.executor.supervisor.bounded_output import BoundedOutput

_PIECE_BYTES = 1 << 16


class OutputPump:
    """One stream of one job.

    Read it until it has ended, then close it. A full disk is reported, and does not stop it.
    """

    def __init__(self, path: str, head_bytes: int, tail_bytes: int) -> None:
        """Raises OSError when the file cannot be made."""
        self.output = BoundedOutput(head_bytes, tail_bytes)
        self.fault = ""
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file: int = os.open(os.fsencode(path), flags, 0o600)
        try:
            self.pipe, self.writer = os.pipe()
        except OSError:
            os.close(self._file)
            raise
        os.set_blocking(self.pipe, False)
        self.has_ended = False
        self.is_closed = False

    def release_writer(self) -> None:
        """Our copy of the end that the job writes to; the pipe ends when the last copy is closed."""
        os.close(self.writer)

    def pump_once(self) -> bool:
        """Take one piece. False when there is none now, or none will come any more: see `has_ended`."""
        if self.has_ended or self.is_closed:
            return False
        try:
            piece = os.read(self.pipe, _PIECE_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self.has_ended = True
            return False
        self._write(self.output.feed(piece))
        return True

    def close(self) -> None:
        """Write the last bytes and stop reading. A writer that is still there is told so by a broken pipe."""
        if not self.is_closed:
            self.is_closed = True
            self._write(self.output.rest())
            os.close(self.pipe)
            os.close(self._file)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and not self.fault:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.fault = f"{self._path} cannot be written: {(error.strerror or '').lower()}"
