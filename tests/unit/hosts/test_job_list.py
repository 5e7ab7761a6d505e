"""The jobs of a run as they lie in their file: found without reading all of them, read when they are asked for."""

from __future__ import annotations

import pytest

from minions.domain.errors import MinionsError, NotFound
from minions.domain.jobs import Job, job_line
from minions.hosts.job_list import JobList
from minions.hosts.run_directory import name_of

JOBS = [
    (Job(0, ("run", '"output":"out/1.txt"', '"id":"bbbb'), 'out/ü "q".txt', {"id": "b" * 8}), "a" * 64),
    (Job(1, ("run",), "out/1.txt", {}), "b" * 64),
    (Job(2, ("run",), "out/2.txt", {"output": "out/0.txt"}), "bbcc" * 16),
]


def listed(*more: bytes) -> JobList:
    return JobList("jobs.jsonl", b"".join([*(job_line(*each) for each in JOBS), *more]))


def test_a_list_of_jobs_is_the_jobs() -> None:
    jobs = listed()
    assert jobs == JOBS
    assert jobs != JOBS[:2]
    assert jobs[-1] == JOBS[2]
    assert jobs[1:] == JOBS[1:]
    assert len(JobList("empty", b"")) == 0
    with pytest.raises(IndexError):
        _ = jobs[3]


def test_identities_and_outputs_are_told_without_reading_the_lines() -> None:
    jobs = listed()
    assert list(jobs.identities()) == [identity for _, identity in JOBS]
    assert [jobs.output(place) for place in range(3)] == [job.output for job, _ in JOBS]


@pytest.mark.parametrize(
    ("reference", "place"), [("2", 2), ("out/1.txt", 1), ('out/ü "q".txt', 0), ("bbbb", 1), ("bbcc", 2), ("aaaaaa", 0)]
)
def test_a_job_is_found_by_its_number_output_or_identity(reference: str, place: int) -> None:
    assert name_of(listed(), reference) == place


@pytest.mark.parametrize("reference", ["out/0.txt", "bbb", "é", "3", "out"])
def test_what_only_looks_like_it_is_not_found(reference: str) -> None:
    with pytest.raises(NotFound, match="no job"):
        name_of(listed(), reference)


def test_a_beginning_that_two_identities_have_names_neither() -> None:
    twins = JobList("jobs", b"".join(job_line(Job(at, ("run",), str(at), {}), f"{at}".rjust(64, "c")) for at in (1, 2)))
    with pytest.raises(NotFound, match="2 jobs, not one"):
        name_of(twins, "cccc")


def test_a_damaged_line_costs_only_its_own_job() -> None:
    jobs = listed(b'{"index":3,"id":"' + b"d" * 64 + b'"}\n', b"nonsense\n")
    assert name_of(jobs, "bbbb") == 1
    assert jobs.identity(3) == "d" * 64
    with pytest.raises(MinionsError, match=r"^jobs\.jsonl, line 5: the line is no JSON"):
        _ = jobs[4]
