"""What of a task of commands is refused, and what its inputs are worth."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from minions.domain.jobs import Job, Pinned, job_id, job_line
from tests.integration.commands.project import CommandRig, shell
from tests.integration.executor.deployment import ADMIN


def line(commands: CommandRig, index: int, output: str, **changed: Any) -> bytes:
    job = Job(index, ("true",), output, {})
    found = json.loads(job_line(job, job_id(Pinned(commands.project.commit, None, {}), job)))
    return json.dumps(found | changed).encode() + b"\n"


async def refused(commands: CommandRig, data: bytes, **parameters: Any) -> list[tuple[str, str, str]]:
    body = commands.request(await commands.upload("jobs.jsonl", data), **parameters)
    answer = await commands.rig.http.post("/api/v1/tasks", json=body)
    assert answer.status_code == 422, answer.text
    return [(each["field"], each["code"], each["message"]) for each in answer.json()["errors"]]


async def test_every_wrong_line_is_named(commands: CommandRig) -> None:
    good = [line(commands, number, f"out/{number}") for number in range(3)]
    assert await refused(commands, b"") == [("inputs[0]", "empty", "the file has no jobs")]
    found = await refused(
        commands,
        good[0]
        + line(commands, 5, "out/5")
        + line(commands, 2, "../up")
        + line(commands, 3, "out/3", argv=["false"])
        + b"nonsense\n"
        + line(commands, 5, "out/0"),
    )
    assert found == [
        ("inputs[0]", "bad_index", "inputs[0]: line 2: index is 5, and must be 1: jobs are numbered in their order"),
        (
            "inputs[0]",
            "bad_job",
            "inputs[0]: line 3: output '../up' must be a plain path inside the project, without '.', '..' and "
            "empty pieces",
        ),
        ("inputs[0]", "bad_id", "inputs[0]: line 4: the id is not that of this job"),
        ("inputs[0]", "bad_job", "inputs[0]: line 5: the line is no JSON"),
        ("inputs[0]", "duplicate", "inputs[0]: line 6: the same job as line 1"),
        ("inputs[0]", "duplicate", "jobs 0 and 3 would write the same output 'out/0'"),
    ]
    assert [code for _, code, _ in await refused(commands, good[0], commit="0" * 40)] == ["bad_model", "bad_id"]


async def test_only_administrators_hand_in_commands(commands: CommandRig) -> None:
    token = await commands.rig.http.post("/api/v1/tokens", json={"name": "t", "scope": "submit"})
    headers = {"Authorization": f"Bearer {token.json()['secret']}"}
    body = commands.request(await commands.upload("jobs.jsonl", line(commands, 0, "a")))
    answer = await commands.rig.http.post("/api/v1/tasks", json=body, headers=headers)
    assert answer.status_code == 403
    assert "need admin" in answer.json()["detail"]


@pytest.mark.timeout(180)
async def test_twenty_thousand_jobs_are_split_in_a_moment(commands: CommandRig) -> None:
    task = await commands.submit([(["true"], f"out/{number}") for number in range(20_000)])
    view = await commands.rig.until(task, lambda view: view["state"] == "running")
    assert view["subtasks"]["queued"] == 20_000
    last = (await commands.rig.http.get(f"/api/v1/tasks/{task}/jobs?after=19997&limit=10")).json()
    assert [(job["index"], job["output"]) for job in last["data"]] == [(19_998, "out/19998"), (19_999, "out/19999")]


@pytest.mark.timeout(180)
async def test_an_input_is_fetched_once_and_put_right_unless_it_is_of_the_commit(commands: CommandRig) -> None:
    given = [shell('cat data/big >"$1"', "a"), shell('cat data/big >"$1"', "b")]
    async with commands.executor(slots=1) as host:
        task = await commands.submit(given, inputs={"data/big": b"large" * 1000})
        assert (await commands.rig.ended(task))["state"] == "completed"
        assert await commands.output((await commands.jobs(task))[1]) == b"large" * 1000
        assert len(list((host.state / "inputs").iterdir())) == 1
        worktree = host.state / "worktrees" / commands.project.commit
        (worktree / "data" / "big").write_bytes(b"other" * 1000)
        again = await commands.submit(given, inputs={"data/big": b"large" * 1000})
        assert (await commands.rig.ended(again))["state"] == "completed"
        assert await commands.output((await commands.jobs(again))[1]) == b"large" * 1000
        (worktree / "data" / "big").write_bytes(b"other" * 1000)
        third = await commands.submit(given, inputs={"data/big": b"large" * 1000}, in_commit=["data/big"])
        assert (await commands.rig.ended(third))["state"] == "failed"
    jobs = await commands.jobs(third)
    assert [job["reason"] for job in jobs] == ["input_changed"] * 2
    assert jobs[0]["message"].startswith("the input data/big has the hash")


@pytest.mark.timeout(180)
async def test_the_same_job_with_another_output_is_shown(commands: CommandRig) -> None:
    # Long enough for the two to meet: they write the same file, and must not take each other's.
    given = [shell('date +%s%N >"$1"; sleep 0.3', "now"), shell('echo same >"$1"', "same")]
    async with commands.executor():
        tasks = [await commands.submit(given, name=f"t{number}") for number in range(2)]
        for task in tasks:
            await commands.rig.ended(task)
    for task in tasks:
        assert [job["nondeterministic"] for job in await commands.jobs(task)] == [True, False]


async def test_pages_and_lists_show_a_task_of_commands(commands: CommandRig) -> None:
    async with commands.executor():
        task = await commands.submit([shell('echo <b> >"$1"', "out/a<b>"), shell("exit 4", "b")])
        await commands.rig.ended(task)
    browsing = {"Sec-Fetch-Site": "same-origin", "Origin": commands.rig.url, "Accept": "text/html"}
    async with httpx.AsyncClient(base_url=commands.rig.url, headers=browsing) as browser:
        assert (await browser.post("/sign-in", data={"token": ADMIN})).status_code == 303
        for tab in ("", "/subtasks", "/results", "/errors", "/configuration", "/activity", "/retry"):
            page = await browser.get(f"/tasks/{task}{tab}")
            assert page.status_code == 200, f"{tab}: {page.text}"
            if tab == "/results":
                assert "out/a&lt;b&gt;" in page.text
                assert "command failed, exit code 4" in page.text
        assert (await browser.get("/tasks")).status_code == 200
        assert (await browser.get(f"/tasks/{task}/download")).status_code in (404, 409)
