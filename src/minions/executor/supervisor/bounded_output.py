"""What is kept of an output without end: its first bytes and its last, and how much is missing in between."""

from __future__ import annotations


class BoundedOutput:
    """Fed with what a job prints, piece by piece; holds at most twice tail_bytes in memory, and one piece."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._last = bytearray()
        self.total_bytes = 0

    def feed(self, piece: bytes) -> bytes:
        """Take a piece; answers what of it belongs to the first bytes, to be written now."""
        head = piece[: max(0, self._head_bytes - self.total_bytes)]
        self.total_bytes += len(piece)
        self._last += piece
        if len(self._last) > 2 * self._tail_bytes:
            del self._last[: len(self._last) - self._tail_bytes]
        return head

    def rest(self) -> bytes:
        """What is to be written after the first bytes, once the output has ended."""
        after_head = max(0, self.total_bytes - self._head_bytes)
        left_out = max(0, after_head - self._tail_bytes)
        note = f"\n[minions: {left_out:,} bytes left out]\n".encode() if left_out else b""
        return note + self.last(min(after_head, self._tail_bytes))

    def last(self, size: int) -> bytes:
        """The last bytes of the output, at most size of them, and at most tail_bytes."""
        size = min(size, self._tail_bytes)
        return bytes(self._last[-size:]) if size else b""
