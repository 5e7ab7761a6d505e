"""minions.toml: what it asks for, and that each error names its key and line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from minions.domain.errors import NotFound, ValidationFailed
from minions.hosts.project_file import find_root, parse_run, read_hosts, read_project, select_jobs

GOOD = """
[run]
command = ["run", "--from", "{start}", "{output}"]
range = { stop = 30, step = 10 }
output = "results/raw/{index:02}.json"
inputs = ["data/large.parquet"]
merge = ["merge", "{outputs}"]
timeout = "1h30m"
retries = 2
idempotent = true
setup = ["make", "deps"]
"""


def project(root: Path, text: str) -> Path:
    (root / "minions.toml").write_text(text)
    return root


def wrong(root: Path, text: str) -> list[str]:
    with pytest.raises(ValidationFailed) as refused:
        read_project(project(root, text))
    assert {error.field for error in refused.value.errors} == {"minions.toml"}
    return [error.message for error in refused.value.errors]


def test_a_whole_file(tmp_path: Path) -> None:
    found = read_project(project(tmp_path, GOOD + '[hosts.local]\nslots = 4\n[hosts.mini]\nssh = "m"\nslots = 8\n'))
    run = found.run
    assert [job.argv for job in run.jobs][1] == ("run", "--from", "10", "results/raw/01.json")
    assert (run.output_directory, run.timeout_seconds, run.retries, run.idempotent) == ("results/raw", 5400, 2, True)
    assert (run.inputs, run.merge, run.setup) == (("data/large.parquet",), ("merge", "{outputs}"), ("make", "deps"))
    assert [(host.name, host.slots, host.is_local) for host in found.hosts] == [("local", 4, True), ("mini", 8, False)]


def test_second_starts_are_off_unless_they_are_asked_for(tmp_path: Path) -> None:
    assert not read_project(project(tmp_path, GOOD)).run.second_start
    assert read_project(project(tmp_path, GOOD + "second_start = true\n")).run.second_start


def test_without_hosts_it_is_this_machine(tmp_path: Path) -> None:
    assert [(host.name, host.slots) for host in read_project(project(tmp_path, GOOD)).hosts] == [("local", 1)]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"1h30m"', '"soon"', 'line 8: run.timeout must be a time such as "90s"'),
        ("retries = 2", "retries = 200", "line 9: run.retries must be a whole number from 0 to 100"),
        ("true", '"yes"', "line 10: run.idempotent must be true or false"),
        ("idempotent = true", "second_start = true", "line 10: run.second_start needs idempotent = true"),
        ('"{outputs}"]', '"all={outputs}"]', 'line 7: run.merge "{outputs}" must be a word of its own'),
        ('"{outputs}"]', '"x"]', 'line 7: run.merge names no "{outputs}"'),
        ("data/large", "../large", "line 6: run.inputs '../large.parquet' must be a plain path"),
        ("step = 10", "step = 0", "line 4: run.range.step = 0: it must be at least 1"),
        ("{start}", "{begin}", "line 3: run.command[2]: {begin} is no placeholder here"),
        ("[run]", "foo = 1\n[run]", "line 2: foo is no key or table of this file; known are run, hosts, server"),
        ("[run]", "[host.mini]\nssh = 'm'\n[run]", "line 2: host is no key or table of this file; did you mean hosts?"),
        ("{index:02}", "{index:3000000000}", "line 5: run.output: {index:3000000000} is too wide"),
        (
            "results/raw/{index:02}.json",
            ".minions/{index}",
            "line 5: run.output: '.minions/0' must not lie in .minions",
        ),
        ("retries", "retry", "line 9: run.retry is no key; known are command"),
        ("range = { stop = 30, step = 10 }\n", "", "line 2: run: give one of range, list, matrix, jobs, not none"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in GOOD
    (message,) = wrong(tmp_path, GOOD.replace(before, after, 1))
    assert message.startswith(said)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("retries = 2", "retries = -1").replace("true", "1") + "[hosts.mini]\nslots = 0\n"
    said = "\n".join(wrong(tmp_path, text))
    for part in ("line 9: run.retries", "line 10: run.idempotent", "hosts.mini.slots", "hosts.mini needs ssh"):
        assert part in said


def test_jobs_of_a_file(tmp_path: Path) -> None:
    text = GOOD.replace("range = { stop = 30, step = 10 }", 'jobs = "jobs.jsonl"')
    (tmp_path / "jobs.jsonl").write_text('{"start": 5}\n\n{"start": 6}\n')
    run = read_project(project(tmp_path, text)).run
    assert [job.argv[2] for job in run.jobs] == ["5", "6"]
    assert run.jobs_file == "jobs.jsonl"
    (tmp_path / "jobs.jsonl").write_text('{"start": 5}\n{"start"\n')
    assert wrong(tmp_path, text) == ["jobs.jsonl, line 2: this is no JSON"]
    (tmp_path / "jobs.jsonl").write_text("\n" + "[" * 100_000)
    assert wrong(tmp_path, text) == ["jobs.jsonl, line 2: this is no JSON"]
    (tmp_path / "jobs.jsonl").write_text('{"start": 5}\n\n{"start": null}\n')
    assert wrong(tmp_path, text) == ["jobs.jsonl, line 3.start is missing; it must be a text or a number"]
    (tmp_path / "jobs.jsonl").write_text("\n")
    assert wrong(tmp_path, text)[0].startswith("line 4: run.jobs: jobs.jsonl has no jobs; write one JSON object")
    (tmp_path / "jobs.jsonl").unlink()
    assert wrong(tmp_path, text) == [
        "line 4: run.jobs: jobs.jsonl: no such file or directory; it is looked for in the directory of minions.toml"
    ]
    text = text.replace('"jobs.jsonl"', '"a\\u0000b"')
    assert wrong(tmp_path, text)[0].startswith("line 4: run.jobs: 'a\\x00b': no file can have that name; ")
    assert "line 4: run.jobs = 3: it must name a file" in wrong(tmp_path, text.replace('"a\\u0000b"', "3"))[0]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("minions.toml", "says what is run"),
        ("Minions.toml/{q}", "says what is run"),
        ("jobs.jsonl", "lists the jobs"),
        ("data", "is an input"),
        ("data/large.parquet", "is an input"),
    ],
)
def test_no_output_takes_the_place_of_what_the_run_is_made_of(tmp_path: Path, output: str, said: str) -> None:
    text = GOOD.replace("range = { stop = 30, step = 10 }", 'jobs = "jobs.jsonl"')
    text = text.replace("results/raw/{index:02}.json", output).replace("{start}", "{q}")
    (tmp_path / "jobs.jsonl").write_text('{"q": "x"}\n')
    (message,) = wrong(tmp_path, text)
    assert message.startswith("line 5: run.output: job 0 would write ")
    assert message.endswith(f" {said}; write elsewhere")


def test_settings_of_the_client_may_stand_in_the_same_file(tmp_path: Path) -> None:
    text = "server = 'http://127.0.0.1:1'\ntoken = 'x'\nteam = 'a'\nproject = 'b'\n" + GOOD
    assert len(read_project(project(tmp_path, text)).run.jobs) == 3
    with pytest.raises(ValidationFailed, match=r"line 1: servre is no key .* did you mean server\?"):
        read_hosts(project(tmp_path, text.replace("server", "servre")))


def test_a_file_that_nests_without_end_is_refused_in_words(tmp_path: Path) -> None:
    assert wrong(tmp_path, "a = " + "[" * 100_000) == ["its values lie too deep in one another"]


def test_a_file_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no minions\.toml"):
        read_project(tmp_path)
    assert "line 2" in wrong(tmp_path, "[run]\nretries = two\n")[0]
    way_out = "it says what shall be run, and docs/own-machines.md shows one to start from"
    assert wrong(tmp_path, "server = 'x'\n") == [f"there is no table [run]; {way_out}"]
    assert wrong(tmp_path, "\nrun = 3\n") == [f"line 2: run must be a table: write [run]; {way_out}"]
    (tmp_path / "minions.toml").write_bytes(b"[run]\n\xff\n")
    with pytest.raises(ValidationFailed, match="byte 6 is no UTF-8; save it as UTF-8"):
        read_project(tmp_path)


def test_one_template_that_makes_the_same_output_again_and_again_is_told_once(tmp_path: Path) -> None:
    assert wrong(tmp_path, GOOD.replace("{index:02}", "all")) == [
        "line 5: run.output: jobs 0 and 1 would write the same output 'results/raw/all.json'; put {index}, or another "
        "placeholder that differs from job to job, into it"
    ]


def test_the_project_is_the_repository_around_the_directory(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert find_root(tmp_path / "a" / "b") == tmp_path


def test_a_selection_of_jobs() -> None:
    assert select_jobs("3, 5-7,6", 8) == [3, 5, 6, 7]


@pytest.mark.parametrize("text", ["", "8", "5-3", "a", "1,", "-1", "1-8"])
def test_a_selection_that_means_nothing(text: str) -> None:
    with pytest.raises(ValidationFailed):
        select_jobs(text, 8)


def test_outputs_in_the_project_itself_have_no_directory() -> None:
    table = tomllib.loads(GOOD.replace("results/raw/{index:02}", "{index}"))["run"]
    run, errors = parse_run(table, GOOD)
    assert errors == []
    assert run is not None
    assert run.output_directory == ""
