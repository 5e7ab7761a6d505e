"""Frames: what goes in comes out, vectors byte for byte."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.rows import Outcome, RowCode
from minions.executor.engine_frames import LENGTHS, pack, pack_outcomes, unpack_outcomes

_text = st.none() | st.text(max_size=20)
_count = st.none() | st.integers(0, 2**40)
_outcomes = st.builds(
    Outcome,
    code=st.none() | st.sampled_from(RowCode),
    message=st.text(max_size=20),
    vector=st.none() | st.binary(max_size=40),
    text=_text,
    thinking=_text,
    finish_reason=_text,
    input_tokens=_count,
    output_tokens=_count,
    truncated=st.booleans(),
    seen_tokens=_count,
)


@given(st.lists(st.tuples(st.integers(0, 2**62), _outcomes), max_size=6))
def test_outcomes_survive_the_way(outcomes: list[tuple[int, Outcome]]) -> None:
    frame = pack_outcomes(outcomes)
    header_bytes, payload_bytes = LENGTHS.unpack_from(frame)
    assert len(frame) == LENGTHS.size + header_bytes + payload_bytes
    header = json.loads(frame[LENGTHS.size : LENGTHS.size + header_bytes])
    found = unpack_outcomes(header["rows"], frame[LENGTHS.size + header_bytes :])
    assert found == outcomes
    assert all(outcome.code is None or isinstance(outcome.code, RowCode) for _, outcome in found)


def test_half_a_surrogate_pair_passes() -> None:
    frame = pack("rows", texts=["a \ud83d b"])
    assert json.loads(frame[LENGTHS.size :])["texts"] == ["a \ud83d b"]
