"""Jobs: what a table [run] becomes, and what is said of one that is wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.jobs import Job, JobsFile, Pinned, expand, job_id, job_line, parse_job_line
from minions.domain.output_paths import output_errors, path_problem, taken_errors

PINNED = Pinned("a" * 40, None, {"data/x": "b" * 64})
RUN: dict[str, Any] = {"command": ["run", "{output}"], "output": "out/{index}"}
TEXT = st.text(st.characters(blacklist_characters="\0"), max_size=20)
WORD = st.text(st.characters(blacklist_characters="\0", blacklist_categories=()), max_size=20)


def jobs_of(**changed: Any) -> list[Job]:
    jobs, errors = expand(RUN | changed)
    assert errors == []
    return jobs


def errors_of(file: JobsFile | None = None, **changed: Any) -> list[tuple[str, str]]:
    given = {key: value for key, value in (RUN | changed).items() if value is not None}
    return [(error.field, error.message) for error in expand(given, file)[1]]


def test_a_range_becomes_shards_and_the_last_one_is_shorter() -> None:
    jobs = jobs_of(
        command=["run", "--start", "{start}", "--stop", "{stop}", "--output", "{output}"],
        range={"start": 0, "stop": 250, "step": 100},
        output="results/shard-{index:03}.json",
        environment={"SEED": "{start}"},
    )
    assert [job.argv[2::2] for job in jobs] == [
        ("0", "100", "results/shard-000.json"),
        ("100", "200", "results/shard-001.json"),
        ("200", "250", "results/shard-002.json"),
    ]
    assert [dict(job.environment) for job in jobs] == [{"SEED": "0"}, {"SEED": "100"}, {"SEED": "200"}]


@given(start=st.integers(-1000, 1000), length=st.integers(1, 2000), step=st.integers(1, 300))
def test_the_shards_of_a_range_cover_it_once(start: int, length: int, step: int) -> None:
    jobs = jobs_of(command=["{start}", "{stop}"], range={"start": start, "stop": start + length, "step": step})
    cuts = [(int(first), int(past)) for first, past in (job.argv for job in jobs)]
    assert [number for first, past in cuts for number in range(first, past)] == list(range(start, start + length))
    assert len(cuts) == math.ceil(length / step)
    assert [job.index for job in jobs] == list(range(len(cuts)))


def test_lists_matrices_and_files_name_their_placeholders() -> None:
    assert [job.argv[1] for job in jobs_of(command=["run", "{item:>4}"], list=["a", 7])] == ["   a", "   7"]
    listed = jobs_of(command=["run", "{name}"], list=[{"name": "x"}, {"name": "y"}])
    assert [job.argv[1] for job in listed] == ["x", "y"]
    product = jobs_of(command=["run", "{size}-{rate:.2f}"], matrix={"size": ["s", "l"], "rate": [0.5, 1]})
    assert [job.argv[1] for job in product] == ["s-0.50", "s-1.00", "l-0.50", "l-1.00"]
    jobs, errors = expand(
        RUN | {"command": ["run", "{{{q}}}"], "jobs": "j"}, JobsFile("j", [(1, {"q": "1"}), (3, {"q": "2"})])
    )
    assert errors == []
    assert [job.argv[1] for job in jobs] == ["{1}", "{2}"]


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({}, "run", "run: give one of range, list, matrix, jobs, not none"),
        ({"list": [1], "range": {"stop": 3}}, "run", "run: give one of range, list, matrix, jobs, not range and list"),
        ({"range": {"stop": 3, "step": 0}}, "run.range.step", "run.range.step = 0: it must be at least 1"),
        (
            {"range": {"start": 3, "stop": 3}},
            "run.range.stop",
            "run.range.stop = 3: it must be more than start, which is 3",
        ),
        ({"range": {"stop": True}}, "run.range.stop", "run.range.stop = True: it must be a whole number"),
        (
            {"range": {"stop": 2_000_000}},
            "run.range.step",
            "run.range.step = 1: it gives more than 1,000,000 jobs; make it larger",
        ),
        ({"list": []}, "run.list", 'run.list = []: it must be a list with at least one value, such as ["a", "b"]'),
        ({"list": ["a", None]}, "run.list[1]", "run.list[1] is missing; it must be a text or a number"),
        (
            {"list": [1], "command": ["run", "{what}"]},
            "run.command[1]",
            "run.command[1]: {what} is no placeholder here; there are {item}, {index}, {output} (job 0: {'item': 1})",
        ),
        (
            {"list": ["x"], "command": ["run", "{item:03d}"]},
            "run.command[1]",
            "run.command[1]: 'x' does not fit {item:03d} (job 0: {'item': 'x'})",
        ),
        (
            {"list": ["x"], "command": ["run", "{item"]},
            "run.command[1]",
            "run.command[1]: '{item' is no template (expected '}' before end of string); {{ and }} stand for braces "
            "(job 0: {'item': 'x'})",
        ),
        (
            {"list": ["../x"], "output": "{item}"},
            "run.output",
            "run.output: '../x' must be a plain path inside the project, without '.', '..' and empty pieces "
            "(job 0: {'item': '../x'})",
        ),
        (
            {"list": ["a", "b"], "output": "same"},
            "run.output",
            "jobs 0 and 1 would write the same output 'same'",
        ),
        (
            {"list": [1], "environment": {"MINIONS_TOKEN": "x"}},
            "run.environment.MINIONS_TOKEN",
            "run.environment: 'MINIONS_TOKEN' is no name for a variable: no '=', and not MINIONS_…",
        ),
        ({"jobs": 3}, "run.jobs", 'run.jobs = 3: it must name a file of JSON lines, such as "jobs.jsonl"'),
        (
            {"list": [1], "output": "{index:99999999999}"},
            "run.output",
            "run.output: {index:99999999999} is too wide; 64 characters are the most (job 0: {'item': 1})",
        ),
        (
            {"list": ["a", "b\udce9"], "command": ["run", "{item}"], "output": "{index}"},
            "run.command[1]",
            "run.command[1]: character 1 is half of a surrogate pair, which is no text in UTF-8; write the whole one "
            "(job 1: {'item': 'b\\udce9'})",
        ),
        (
            {"list": ["\udce9"], "environment": {"X": "{item}"}},
            "run.environment.X",
            "run.environment.X: character 0 is half of a surrogate pair, which is no text in UTF-8; write the whole "
            "one (job 0: {'item': '\\udce9'})",
        ),
        (
            {"list": [1], "command": []},
            "run.command",
            'run.command = []: it must be a list of words, such as ["python", "run.py", "{output}"]',
        ),
    ],
)
def test_what_is_wrong_names_the_key_the_value_and_the_way_out(
    changed: dict[str, Any], field: str, message: str
) -> None:
    assert errors_of(**changed) == [(field, message)]


def test_a_job_that_no_line_could_hold_is_refused_before_anything_starts() -> None:
    assert errors_of(list=["x" * 1_000_000], command=["run", "{item}"]) == []
    ((field, said),) = errors_of(list=["x" * 1_100_000], command=["run", "{item}"])
    assert field == "run.command"
    assert "more than 1,048,576 bytes" in said


def test_what_is_wrong_with_a_file_of_jobs_names_its_line() -> None:
    file = JobsFile("j.jsonl", [(2, {"item": "a"}), (4, {"item": "b\ud800"})])
    ((_, said),) = errors_of(file, jobs="j.jsonl", command=["run", "{item}"])
    assert said.endswith("(j.jsonl, line 4: {'item': 'b\\ud800'})")
    file = JobsFile("j.jsonl", [(2, {"item": "a"}), (4, {"seed": [1]})])
    assert errors_of(file, jobs="j.jsonl") == [
        ("j.jsonl, line 4.seed", "j.jsonl, line 4.seed = [1]: it must be a text or a number")
    ]
    ((field, said),) = errors_of(JobsFile("j.jsonl", []), jobs="j.jsonl")
    assert (field, said.partition(";")[0]) == ("run.jobs", "run.jobs: j.jsonl has no jobs")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("src.py", "it is code"),
        ("SRC.py", "src.py is code"),
        ("src.py/x", "src.py is code"),
        ("deep", "deep/down/x is code"),
        ("deep/down", "deep/down/x is code"),
        ("deep/other", None),
        ("src.pyc", None),
    ],
)
def test_outputs_where_something_else_lies_are_refused(output: str, said: str | None) -> None:
    found = taken_errors(["a", output], {"src.py": "is code", "deep/down/x": "is code"})
    assert [each.message for each in found] == (
        [] if said is None else [f"run.output: job 1 would write {output!r}, but {said}"]
    )


@pytest.mark.parametrize(
    ("outputs", "pairs"),
    [
        (["a/b", "a/c", "b"], []),
        (["a", "A"], [(0, 1)]),
        (["a", "a/b"], [(0, 1)]),
        (["a/b/c", "x", "a"], [(0, 2)]),
        (["caf\u00e9", "cafe\u0301"], [(0, 1)]),
    ],
)
def test_outputs_that_one_file_would_hold_are_refused(outputs: list[str], pairs: list[tuple[int, int]]) -> None:
    found = output_errors(outputs)
    assert [error.message.split(" would")[0] for error in found] == [f"jobs {a} and {b}" for a, b in pairs]


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "a//b",
        "",
        "..",
        "a/../b",
        ".git/hooks/x",
        ".GIT/x",
        "a/.git/x",
        ".g\u200cit/x",
        ".minions/run.json",
        ".Minions/x",
        "a\\b",
        "a\nb",
        "x" * 300,
    ],
)
def test_paths_that_leave_the_project_or_cannot_be_files_are_refused(path: str) -> None:
    assert path_problem(path)


jobs = st.builds(
    Job,
    index=st.integers(0, 10**6),
    argv=st.lists(WORD, min_size=1, max_size=5).filter(lambda words: words[0] != "").map(tuple),
    output=st.sampled_from(["a", "b/c", "é/日"]),
    environment=st.dictionaries(st.text("ABC_", min_size=1, max_size=5), WORD, max_size=3),
)


@given(job=jobs)
def test_a_line_gives_the_same_job_again_whatever_its_arguments(job: Job) -> None:
    identity = job_id(PINNED, job)
    line = job_line(job, identity)
    assert line.count(b"\n") == 1
    assert parse_job_line(line) == (job, identity)


@given(job=jobs, other=jobs)
def test_the_identity_is_the_work_and_not_the_place_in_the_list(job: Job, other: Job) -> None:
    assert job_id(PINNED, replace(job, index=job.index + 1)) == job_id(PINNED, job)
    same = (job.argv, job.output, dict(job.environment)) == (other.argv, other.output, dict(other.environment))
    assert (job_id(PINNED, job) == job_id(PINNED, other)) == same
    for changed in (
        replace(PINNED, commit="c" * 40),
        replace(PINNED, patch_sha256="d" * 64),
        replace(PINNED, inputs={"data/x": "e" * 64}),
        replace(PINNED, inputs={"data/y": "b" * 64}),
    ):
        assert job_id(changed, job) != job_id(PINNED, job)


@given(st.dictionaries(st.sampled_from(["index", "id", "argv", "output", "environment", "more"]), st.none() | TEXT))
def test_a_line_of_another_shape_is_refused_in_words(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^[a-z]"):
        parse_job_line(json.dumps(fields).encode())
