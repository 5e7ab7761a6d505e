"""Finding jobs by their identities in the file of a task."""

from __future__ import annotations

import json

import pytest

from minions.domain.jobs import Job, job_line
from minions.formats.source import MemorySource
from minions.server import job_search
from minions.server.job_search import numbers_of

IDENTITIES = ["abcd" * 16, "abce" * 16, "abcd" + "0" * 60]


def file_of(*more: bytes) -> MemorySource:
    jobs = [Job(at, ("run", '"id":"abcd'), str(at), {"id": "abcdabcd"}) for at in range(3)]
    return MemorySource("jobs.jsonl", b"".join([*map(job_line, jobs, IDENTITIES), *more]))


@pytest.mark.parametrize(
    ("beginning", "numbers"), [("abcd", [0, 2]), ("abce", [1]), ("abcd" * 16, [0]), ("abcf", []), ("abcdabcd", [0])]
)
@pytest.mark.parametrize("block_bytes", [7, 1 << 20])
def test_jobs_are_found_wherever_blocks_end(
    beginning: str, numbers: list[int], block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "_BLOCK_BYTES", block_bytes)
    assert numbers_of(file_of(), beginning) == numbers


def test_lines_as_others_write_them_are_read_and_damaged_ones_passed_over() -> None:
    spaced = {"index": 3, "argv": ["run"], "output": "x", "id": "ffff" * 16}
    broken = b'{"id": "ffff"}\n'
    assert numbers_of(file_of(broken, json.dumps(spaced).encode()), "ffff") == [3]
