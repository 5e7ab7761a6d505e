"""Jobs from their submission to their outputs."""

from __future__ import annotations

import io
import json
import sys
import tarfile

import pytest

from minions.objects.files import FileObjects
from tests.integration.commands.project import CommandRig, shell
from tests.integration.executor.deployment import eventually

TORTURE = [
    ["with space", "it's", 'say "hi"', "$HOME `id` $(id)", "*", ""],
    ["line\nbreak", "tab\t", "\\", "naïve – 日本語 🙂", "-n", "--", "{braces}", "%s"],
]


@pytest.mark.timeout(180)
async def test_every_job_runs_once_and_its_output_arrives_with_its_arguments(commands: CommandRig) -> None:
    given = [([sys.executable, "say.py", f"{n}.json", *words], f"{n}.json") for n, words in enumerate(TORTURE)]
    given.append(shell('mkdir -p "$1/b" && echo 1 >"$1/b/x" && echo 2 >"$1/a"', "deep/tree"))
    async with commands.executor():
        task = await commands.submit(given, environment={"CHOSEN": "yes, 'this'"})
        view = await commands.rig.ended(task)
    assert view["state"] == "completed"
    assert (view["subtasks"]["done"], view["rows"]["ok"]) == (3, 3)
    jobs = await commands.jobs(task)
    assert [job["state"] for job in jobs] == ["done"] * 3
    assert [job["argv"] for job in jobs] == [list(argv) for argv, _ in given]
    for job, words in zip(jobs, TORTURE, strict=False):
        said = json.loads(await commands.output(job))
        assert said["argv"] == words
        assert said["chosen"] == "yes, 'this'"
        assert (job["exit_code"], job["attempt"], job["host"]) == (0, 1, "host")
        assert job["seconds"] > 0
        assert job["peak_memory_bytes"] > 1_000_000
    assert jobs[2]["is_directory"]
    with tarfile.open(fileobj=io.BytesIO(await commands.output(jobs[2]))) as tar:
        assert [(member.name, member.mtime) for member in tar] == [("a", 0), ("b", 0), ("b/x", 0)]
    ledger = (await commands.rig.http.get(f"/api/v1/tasks/{task}/ledger")).json()["data"]
    parts = [entry for entry in ledger if entry["entry"] == "part"]
    assert {entry["job"]["id"] for entry in parts} == {job["id"] for job in jobs}
    assert all(entry["link"] for entry in parts)


@pytest.mark.timeout(180)
async def test_a_job_is_told_where_it_is_and_not_how_somebody_logged_in(
    commands: CommandRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "MAIL", "OLDPWD", "PWD"):
        monkeypatch.setenv(name, "/of/a/login")
    script = "import json, os, sys; json.dump([dict(os.environ), os.getcwd()], open(sys.argv[1], 'w'))"
    given = [([sys.executable, "-c", script, "env"], "env"), shell('echo : >"$1"; chmod +x "$1"', "run")]
    given.append(shell('mkdir "$1"; ln -s /etc "$1/link"', "leads/out"))
    async with commands.executor():
        task = await commands.submit(given)
        await commands.rig.ended(task)
    jobs = await commands.jobs(task)
    environment, directory = json.loads(await commands.output(jobs[0]))
    assert environment["PWD"] == directory
    assert "/of/a/login" not in environment.values()
    assert [job["is_executable"] for job in jobs] == [False, True, False]
    assert (jobs[2]["state"], jobs[2]["reason"]) == ("failed", "output_missing")
    assert jobs[2]["message"].startswith("leads/out: the output holds link, a link to the absolute path /etc")


@pytest.mark.timeout(180)
async def test_a_job_whose_argument_is_no_text_can_be_looked_at(commands: CommandRig) -> None:
    task = await commands.submit([(["x", "caf\udce9"], "a")], environment={"X": "\ud800"})
    await commands.rig.until(task, lambda view: view["state"] == "running")  # else the splitter has not seen it yet
    (job,) = await commands.jobs(task)
    assert job["argv"] == ["x", "caf\\udce9"]
    assert job["environment"] == {"X": "\\ud800"}


@pytest.mark.timeout(180)
async def test_jobs_that_fail_are_tried_as_often_as_the_task_says_and_tell_why(commands: CommandRig) -> None:
    given = [
        shell('echo "went wrong" >&2; exit 3', "a"),
        shell("true", "b"),
        shell('n=$(ls tries | wc -l); : >"tries/$n"; [ "$n" -ge 1 ] && echo done >"$1"', "d"),
        (["no-such-program"], "e"),
        shell("kill -9 $$", "f"),
    ]
    async with commands.executor(slots=3) as host:
        worktree = host.state / "worktrees" / commands.project.commit
        made = await commands.submit([shell('mkdir tries && echo >"$1"', "made")])
        await commands.rig.ended(made)
        await eventually((worktree / "tries").exists)
        # Of their own: another job may take a second as well, on a busy machine.
        late = await commands.submit([shell("trap '' TERM; sleep 60", "c")], retries=1, timeout_seconds=1.0)
        task = await commands.submit(given, retries=1)
        view = await commands.rig.ended(task)
        await commands.rig.ended(late)
    assert view["state"] == "failed"
    assert view["state_reason"] == (
        "4 of 5 jobs failed; their outputs are missing. The causes: 2 command_failed, 1 killed, 1 output_missing"
    )
    jobs = await commands.jobs(task)
    assert [job["reason"] for job in jobs] == [
        "command_failed", "output_missing", "", "command_failed", "killed",
    ]  # fmt: skip
    assert [job["attempt"] for job in jobs] == [2] * 5
    assert [(job["reason"], job["attempt"]) for job in await commands.jobs(late)] == [("timed_out", 2)]
    assert jobs[0]["message"] == "it ended with exit code 3\nwent wrong"
    assert jobs[0]["exit_code"] == 3
    log = (await commands.rig.http.get(jobs[0]["log_link"])).raise_for_status().text
    assert log == "--- stdout\n\n--- stderr\nwent wrong\n\n"
    assert "no-such-program" in jobs[3]["message"]
    assert await commands.output(jobs[2]) == b"done\n"


async def test_an_output_that_the_object_store_does_not_take_fails_before_it_is_sent(
    commands: CommandRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileObjects, "most_link_bytes", property(lambda _: 1000))
    async with commands.executor():
        task = await commands.submit(
            [
                shell('head -c 1000 /dev/zero >"$1"', "small"),
                shell('head -c 1001 /dev/zero >"$1"', "large"),
                shell('mkdir "$1"; head -c 1000 /dev/zero >"$1/file"', "folder"),
            ]
        )
        view = await commands.rig.ended(task)
    assert view["subtasks"]["done"] == 1
    _, large, folder = await commands.jobs(task)
    for job in (large, folder):
        assert job["reason"] == "output_too_large"
        assert "more than 1,000 bytes" in job["message"]
        assert "objects kept in files, not in S3, have no such limit" in job["message"]
    assert commands.rig.saboteur.count("PUT", "/parts/") == 1 + 2, "the one output, and what two jobs printed"
