"""Bounded outputs keep the beginning and the end of anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minions.executor.supervisor.bounded_output import BoundedOutput


def _kept(pieces: list[bytes], head_bytes: int, tail_bytes: int) -> tuple[bytes, BoundedOutput]:
    output = BoundedOutput(head_bytes, tail_bytes)
    return b"".join([*(output.feed(piece) for piece in pieces), output.rest()]), output


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 50), st.integers(0, 50))
def test_first_and_last_bytes_are_kept_however_it_comes(pieces: list[bytes], head_bytes: int, tail_bytes: int) -> None:
    whole = b"".join(pieces)
    kept, output = _kept(pieces, head_bytes, tail_bytes)
    assert output.total_bytes == len(whole)
    assert output.last(10) == (whole[-min(10, tail_bytes) :] if tail_bytes else b"")
    left_out = len(whole) - head_bytes - tail_bytes
    if left_out <= 0:
        assert kept == whole
    else:
        tail = whole[-tail_bytes:] if tail_bytes else b""
        assert kept == whole[:head_bytes] + f"\n[minions: {left_out:,} bytes left out]\n".encode() + tail


def test_a_missing_byte_is_named() -> None:
    kept, _ = _kept([b"abcde"], 2, 2)
    assert kept == b"ab\n[minions: 1 bytes left out]\nde"
