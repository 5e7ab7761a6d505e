"""`minions run` and the verbs around it, on this machine: every output right, nothing run twice, nothing left."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.own_project import OwnProject, wait_until
from tests.integration.hosts.projects import commit, run_git, write

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[OwnProject]:
    project = OwnProject(tmp_path / "project")
    yield project
    assert project.end() == []


def test_a_run_brings_every_output_and_the_next_one_runs_only_what_is_not_as_it_was(project: OwnProject) -> None:
    project.make()
    done = project.minions("run")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 jobs are done" in done.stderr
    assert "minions merge" in done.stderr
    project.assert_whole()
    assert project.ran() == [0, 1, 2, 3]
    project.assert_nothing_runs()
    assert run_git(project.root, "status", "--porcelain", ".minions") == "", "git does not see what is ours"

    again = project.minions("run")
    assert again.returncode == 0
    assert "4 of them were done before" in again.stderr
    assert project.ran() == []

    project.output(0).unlink()
    project.output(1).write_text("num")
    project.output(2).write_text("number x\n")
    third = project.minions("run")
    assert third.returncode == 0, third.stderr
    assert project.ran() == [0, 1, 2]
    project.assert_whole()

    rows = project.json("ledger")["data"]
    assert [row["state"] for row in rows] == ["done"] * 4
    assert {row["host"] for row in rows} == {"local"}
    assert {row["commit"] for row in rows} == {run_git(project.root, "rev-parse", "HEAD")}
    listed = list(csv.DictReader(io.StringIO(project.minions("ledger", "--csv").stdout)))
    assert [row["output"] for row in listed] == [f"results/00{number}.txt" for number in range(4)]
    told = project.json("explain", "results/001.txt")
    assert len([entry for entry in told["attempts"] if entry["entry"] == "part"]) == 2, "it was run twice"
    assert told["replay"].splitlines()[-1].endswith("job.py 1 results/001.txt")


def test_outputs_are_merged_only_if_each_is_as_the_ledger_says(project: OwnProject) -> None:
    project.make()
    assert project.minions("run", "--jobs", "0-2").returncode == 0
    refused = project.minions("merge")
    assert refused.returncode == 1
    assert "results/003.txt is not done" in refused.stderr
    assert project.minions("verify").returncode == 5
    assert project.minions("run").returncode == 0
    assert project.ran() == [0, 1, 2, 3]

    project.output(1).write_text("forged\n")
    refused = project.minions("merge")
    assert refused.returncode == 1
    assert "results/001.txt is changed" in refused.stderr
    assert not (project.root / "results" / "all.txt").exists()
    verified = project.minions("verify", "--json")
    assert verified.returncode == 1
    assert json.loads(verified.stdout)["wrong"] == [{"job": 1, "output": "results/001.txt", "is": "changed"}]

    project.output(1).write_text("number 1\n")
    assert project.minions("merge").returncode == 0
    assert (project.root / "results" / "all.txt").read_text() == "".join(f"number {number}\n" for number in range(4))
    assert project.minions("run").returncode == 0, "what was merged beside the outputs makes the tree not dirty"


def test_a_tree_that_is_not_committed_is_refused_or_recorded(project: OwnProject) -> None:
    project.make()
    write(project.root, {"job.py": (project.root / "job.py").read_text().replace('"number "', '"NUMBER "')})
    write(project.root, {"extra.py": "pass\n"})
    refused = project.minions("run")
    assert refused.returncode == 1
    assert "job.py" in refused.stderr
    assert "extra.py" in refused.stderr
    assert "--dirty" in refused.stderr
    assert project.ran() == []

    assert project.minions("run", "--dirty").returncode == 0
    assert project.output(2).read_text() == "NUMBER 2\n"
    told = project.json("explain", "2")
    patch = project.root / ".minions" / "patches" / f"{told['patch_sha256']}.patch"
    assert b"extra.py" in patch.read_bytes()
    project.ran()
    for once_more in (False, True):
        remove = told["replay"].splitlines()[0].partition("first: ")[2] if once_more else ":"
        done = subprocess.run(["sh", "-c", f"{remove}\n{told['replay']}"], cwd="/", capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (project.root.parent / f"replay-{told['id'][:12]}" / "results" / "002.txt").read_text() == "NUMBER 2\n"
    assert project.ran() == [2, 2]

    commit(project.root, {".gitignore": "results\n"}, "the same, committed")
    assert project.minions("run").returncode == 0
    assert project.ran() == [0, 1, 2, 3], "another commit is another job"


def test_a_job_that_fails_is_tried_again_and_told_with_what_it_said(project: OwnProject) -> None:
    project.make(more={"FAIL": "2"}, run="retries = 1")
    done = project.minions("run")
    assert done.returncode == 5, done.stderr
    assert "1 job failed" in done.stderr
    assert project.ran() == [0, 1, 2, 2, 3]
    assert not project.output(2).exists()
    told = project.json("explain", "2")
    assert told["state"] == "failed"
    assert told["exit_code"] == 1
    assert "it broke here: 2" in told["log"]
    assert [row["job"] for row in project.json("ledger", "--failed")["data"]] == [2]
    assert "it broke here: 2" in project.minions("explain", "2").stdout


def test_many_failures_are_a_few_lines_and_counted_by_reason(project: OwnProject) -> None:
    project.jobs = 30
    project.make()
    commit(project.root, {"job.py": "raise SystemExit('it broke')\n"})
    done = project.minions("run")
    assert done.returncode == 5, done.stderr
    lines = done.stderr.splitlines()
    assert sum(" failed on local (attempt 1): " in line for line in lines) == 20
    assert sum(int(line.split()[0]) for line in lines if " more attempt" in line) == 10
    assert "30 jobs failed: 30 command_failed." in lines
    assert len(project.minions("ledger", "--failed", "--quiet").stdout.splitlines()) == 30


def test_a_killed_coordinator_costs_nothing_that_was_finished(project: OwnProject, tmp_path: Path) -> None:
    wait = tmp_path / "wait"
    project.jobs = 6
    wait.touch()
    project.make(more={"WAIT": str(wait), "WAIT_FROM": "2"})
    run = project.start("run")
    wait_until(lambda: project.output(0).exists() and project.output(1).exists())
    wait_until(lambda: len(list(tmp_path.glob("wait.*"))) == 2)
    project.coordinator().kill()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "was killed" in said
    delivered = [number for number in range(6) if project.output(number).exists()]
    assert delivered == [0, 1]
    stamps = {number: project.output(number).stat().st_mtime_ns for number in delivered}
    wait.unlink()
    again = project.minions("run")
    assert again.returncode == 0, again.stderr
    project.assert_whole()
    assert {number: project.output(number).stat().st_mtime_ns for number in delivered} == stamps
    ran = project.ran()
    assert sorted(set(ran)) == list(range(6))
    assert all(ran.count(number) == 1 for number in delivered), "what was finished is not run again"
    project.assert_nothing_runs()
    assert project.minions("run").returncode == 0
    assert project.ran() == []


def pause_and_resume(project: OwnProject) -> None:
    def host() -> dict[str, object]:
        return project.json("hosts", "ls")["data"][0]

    assert "is paused" in project.minions("hosts", "pause", "local").stderr
    assert project.minions("hosts", "slots", "local", "1").returncode == 0
    wait_until(lambda: host()["state"] == "paused")
    wait_until(lambda: (host()["slots"], host()["running"]) == (1, 2))  # what runs is not stopped
    assert project.minions("hosts", "drain", "nobody").returncode == 4
    assert project.minions("hosts", "resume", "local").returncode == 0


def test_one_run_at_a_time_which_can_be_left_watched_again_and_stopped(project: OwnProject, tmp_path: Path) -> None:
    wait = tmp_path / "wait"
    wait.touch()
    project.make(more={"WAIT": str(wait)})
    first = project.start("run", "--on-interrupt", "detach")
    wait_until(lambda: len(list(tmp_path.glob("wait.*"))) == 2)
    second = project.minions("run")
    assert second.returncode == 1
    assert "already runs in this project" in second.stderr
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 130
    assert "the run goes on" in said
    coordinator = project.coordinator()
    assert coordinator.is_running()
    assert "a run goes on" in project.minions("run", "--jobs", "1").stderr
    pause_and_resume(project)

    third = project.start("run")
    assert third.stderr is not None
    assert third.stderr.readline(), "it watches the run; else it would begin one of its own after the stop"
    assert project.minions("stop").returncode == 0
    assert third.wait(120) == 130
    project.assert_nothing_runs()  # not the jobs that ran either
    assert "Nothing of this project runs" in project.minions("stop").stderr

    wait.unlink()
    assert project.minions("run").returncode == 0
    project.assert_whole()


def test_outputs_may_be_directories_and_inputs_need_not_be_committed(project: OwnProject) -> None:
    table = """
[run]
command = ["/bin/sh", "-c", "mkdir {output} && cp data/big.bin {output}/copy && ln -s copy {output}/link"]
list = ["a", "b"]
output = "out/{item}"
inputs = ["data/big.bin"]

[hosts.local]
slots = 2
"""
    commit(project.root, {"minions.toml": table, ".gitignore": "data/\n"})
    write(project.root, {"data/big.bin": b"12345"})
    done = project.minions("run")
    assert done.returncode == 0, done.stderr
    for item in ("a", "b"):
        assert (project.root / "out" / item / "copy").read_bytes() == b"12345"
        assert (project.root / "out" / item / "link").readlink() == Path("copy")
    assert project.minions("verify").returncode == 0
    (project.root / "out" / "a" / "more").touch()
    assert project.minions("verify").returncode == 1
    write(project.root, {"data/big.bin": b"other"})
    assert project.minions("run").returncode == 0
    assert (project.root / "out" / "b" / "copy").read_bytes() == b"other", "another input is another job"


def test_why_no_host_can_work_is_said_once_and_at_the_end(project: OwnProject) -> None:
    project.make()
    project.configure(run='setup = ["sh", "-c", "echo no compiler here >&2; exit 1"]')
    done = project.minions("run")
    assert done.returncode == 1
    assert "No host can work" in done.stderr
    *before, end = [line for line in done.stderr.splitlines() if "no compiler here" in line]
    assert end.startswith("error local: ")
    assert len(before) == 1, "it is tried again, and fails in the same way"


def test_what_is_wrong_in_the_file_is_said_with_its_line_before_anything_starts(project: OwnProject) -> None:
    project.make()
    project.configure(run='retries = -1\ntimeout = "soon"', hosts="[hosts.mini]\nslots = 0\n")
    refused = project.minions("run")
    assert refused.returncode == 2
    assert "run.retries must be a whole number from 0" in refused.stderr
    assert "line 9: run.timeout" in refused.stderr
    assert "hosts.mini.slots" in refused.stderr
    assert not (project.root / ".minions").exists()
