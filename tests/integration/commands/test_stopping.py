"""A job that was cancelled may still run where nobody has heard of it: till then the same one is begun nowhere else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from minions.domain.errors import InputUnreadable
from minions.domain.lifecycle import TaskState
from minions.domain.names import number_of
from minions.server.actions.change_task import end_early
from minions.server.actions.hold_back import still_running
from minions.server.deployment import read_task
from minions.server.job_lines import JobLine
from minions.store import acquirements, retries, tasks
from tests.contracts.store.world import until_blocked
from tests.integration.commands.project import CommandRig, Given, Host, shell
from tests.integration.commands.test_recovery import runs, stop_process
from tests.integration.executor.deployment import ADMIN, EXECUTOR, eventually


def alone(directory: Path) -> Given:
    """A job that notes each of its runs, tells of an earlier one that is still there, and waits for the file `go`."""
    return shell(
        f'cd "{directory}"; '
        'for each in $(sed -n "s/^start //p" runs); do kill -0 $each && echo twice $each; done >>runs; '
        "echo start $$ >>runs; while [ ! -e go ]; do sleep 0.05; done; echo end $$ >>runs; "
        'cd - >/dev/null; echo right >"$1"',
        "out",
    )


def quick(output: str) -> Given:
    return shell('echo right >"$1"', output)


def said(directory: Path) -> list[str]:
    return [what for what, _ in runs(directory)]


@asynccontextmanager
async def cancelled_unheard(commands: CommandRig, directory: Path) -> AsyncGenerator[tuple[Host, str]]:
    """The job runs on `first`, whose executor hears nothing, and its task is cancelled."""
    (directory / "runs").touch()
    async with commands.executor("first", slots=1) as host:
        task = await commands.submit([alone(directory)])
        await eventually(lambda: said(directory) == ["start"])
        stop_process(host)
        try:
            (await commands.rig.http.post(f"/api/v1/tasks/{task}/cancel")).raise_for_status()
            yield host, task
        finally:
            host.process.send_signal(signal.SIGCONT)


async def held_back(commands: CommandRig, task: str) -> list[tuple[str, int]]:
    """(executor, jobs) for which jobs of the task wait."""
    return [(each["executor"], each["jobs"]) for each in (await commands.rig.view(task))["held_back"]]


async def page_of(commands: CommandRig, task: str) -> str:
    """The task's page, as a person sees it who has signed in."""
    url = commands.rig.url
    async with httpx.AsyncClient(base_url=url, timeout=60) as person:
        await person.post("/sign-in", data={"token": ADMIN}, headers={"Origin": url})
        return (await person.get(f"/tasks/{task}")).raise_for_status().text


async def done(commands: CommandRig, task: str) -> list[str]:
    """The outputs that are there."""
    return [job["output"] for job in await commands.jobs(task) if job["state"] == "done"]


async def are_done(commands: CommandRig, task: str, *outputs: str) -> bool:
    return await done(commands, task) == list(outputs)


async def let_go_on(host: Host, commands: CommandRig) -> None:
    """It hears that the job is not wanted, and stops it."""
    host.process.send_signal(signal.SIGCONT)


async def start_again(host: Host, commands: CommandRig) -> None:
    """It was killed: what it left is stopped before it registers."""
    host.kill()
    host.start()


async def abandon(host: Host, commands: CommandRig) -> None:
    """Somebody says that it does not run there any more, after having ended it."""
    ((_, pid),) = runs(host.state.parent)
    os.kill(int(pid), signal.SIGKILL)
    done = await commands.minions("executors", "abandon", "first", "--yes")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "No job waits any more for 1 cancelled job of first." in done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("way_out", [let_go_on, start_again, abandon])
async def test_it_waits_until_the_first_is_known_to_be_gone(commands: CommandRig, tmp_path: Path, way_out: Any) -> None:
    async with cancelled_unheard(commands, tmp_path) as (first, _):
        task = await commands.submit([quick("before"), alone(tmp_path), quick("after")])
        async with commands.executor("second", slots=2):
            await eventually(lambda: are_done(commands, task, "before", "after"))
            assert said(tmp_path) == ["start"]
            assert await held_back(commands, task) == [("first", 1)]
            jobs = await commands.jobs(task)
            assert [job["held_back"] is not None for job in jobs] == [False, True, False]
            assert jobs[1]["held_back"]["executor"] == "first"
            await way_out(first, commands)
            await eventually(lambda: said(tmp_path) == ["start", "start"])
            (tmp_path / "go").touch()
            view = await commands.rig.ended(task)
    assert view["state"] == "completed"
    assert view["held_back"] == []
    assert said(tmp_path) == ["start", "start", "end"]


@pytest.mark.timeout(60)
async def test_what_may_run_twice_does_not_wait(commands: CommandRig, tmp_path: Path) -> None:
    async with cancelled_unheard(commands, tmp_path):
        task = await commands.submit([alone(tmp_path)], idempotent=True)
        async with commands.executor("second", slots=1):
            await eventually(lambda: said(tmp_path) == ["start", "twice", "start"])
            (tmp_path / "go").touch()
            assert (await commands.rig.ended(task))["state"] == "completed"


@pytest.mark.timeout(60)
async def test_a_retry_of_the_cancelled_task_waits_as_well(commands: CommandRig, tmp_path: Path) -> None:
    async with cancelled_unheard(commands, tmp_path) as (first, task):
        (await commands.rig.http.post(f"/api/v1/tasks/{task}/retry", json={})).raise_for_status()
        async with commands.executor("second", slots=1):
            other = await commands.submit([quick("other")])
            assert (await commands.rig.ended(other))["state"] == "completed"
            assert said(tmp_path) == ["start"]
            assert await held_back(commands, task) == [("first", 1)]
            page = await page_of(commands, task)
            assert "1 job of before may still run on first, not heard of" in page
            assert "<code>minions executors abandon first</code>" in page
            shown = (await commands.minions("tasks", "show", task)).stdout
            assert "it is handed out once first has stopped it, or after `minions executors abandon first`" in shown
            await let_go_on(first, commands)
            await eventually(lambda: said(tmp_path) == ["start", "start"])
            (tmp_path / "go").touch()
            assert (await commands.rig.ended(task))["state"] == "completed"
    assert said(tmp_path) == ["start", "start", "end"]


@dataclass(slots=True)
class ByHand:
    """An executor of commands whose words are those of the test."""

    http: httpx.AsyncClient
    me: dict[str, str]

    @classmethod
    async def register(cls, commands: CommandRig) -> ByHand:
        made = cls(commands.rig.http, {})
        who = {"instance": "e" * 32, "name": "hand", "version": "1", "kinds": ["command"], "engines": ["command"]}
        answer = await made.say("register", **who, memory_mb=1024)
        made.me = {name: answer[name] for name in ("executor", "session")}
        return made

    async def say(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer = await self.http.post(
            f"/api/v1/executor/{verb}", json=self.me | fields, headers={"Authorization": f"Bearer {EXECUTOR}"}
        )
        return cast("dict[str, Any]", answer.raise_for_status().json()) if answer.content else {}


async def test_only_a_word_that_was_said_since_ends_the_waiting(commands: CommandRig) -> None:
    """What was on its way when the job was acquired, or cannot tell what it had heard, confirms nothing."""
    hand = await ByHand.register(commands)
    task = await commands.submit([quick("out")])
    await commands.rig.until(task, lambda view: view["state"] == "running")
    before = (await hand.say("progress", rows={}))["newest"]
    held = (await hand.say("acquire"))["assignment"]["acquirement"]
    (await commands.rig.http.post(f"/api/v1/tasks/{task}/cancel")).raise_for_status()
    again = await commands.submit([quick("out")])
    await commands.rig.until(again, lambda view: view["state"] == "running")

    answer = await hand.say("progress", rows={held: 0}, heard_until=held)
    assert (answer["lost"], answer["stopping"]) == ([held], [held])
    for word in ({}, {"heard_until": before}):
        assert (await hand.say("progress", rows={}, **word))["lost"] == []
        assert await held_back(commands, again) == [("hand", 1)]
    answer = await hand.say("heartbeat", state="idle", holds=[], heard_until=held)
    assert answer["stopping"] == []
    assert await held_back(commands, again) == []
    assert (await hand.say("acquire", wait_seconds=10))["assignment"]["task"] == again


@pytest.mark.parametrize("verb", ["release", "goodbye"])
async def test_so_does_giving_it_back_and_going(commands: CommandRig, verb: str) -> None:
    hand = await ByHand.register(commands)
    task = await commands.submit([quick("out")])
    await commands.rig.until(task, lambda view: view["state"] == "running")
    held = (await hand.say("acquire"))["assignment"]["acquirement"]
    (await commands.rig.http.post(f"/api/v1/tasks/{task}/cancel")).raise_for_status()
    again = await commands.submit([quick("out")])
    await commands.rig.until(again, lambda view: view["state"] == "running")
    assert await held_back(commands, again) == [("hand", 1)]
    await hand.say(verb, reason="test", **({"acquirement": held} if verb == "release" else {}))
    assert await held_back(commands, again) == []


async def cancelled_by_hand(commands: CommandRig, **parameters: Any) -> tuple[ByHand, str, str]:
    """(an executor that has not heard of it, the task, the acquirement that it held)"""
    hand = await ByHand.register(commands)
    task = await commands.submit([quick("out")], **parameters)
    await commands.rig.until(task, lambda view: view["state"] == "running")
    held = (await hand.say("acquire"))["assignment"]["acquirement"]
    (await commands.rig.http.post(f"/api/v1/tasks/{task}/cancel")).raise_for_status()
    return hand, task, held


async def test_a_job_that_might_run_twice_holds_back_one_that_must_not(commands: CommandRig) -> None:
    hand, _, held = await cancelled_by_hand(commands, idempotent=True)
    again = await commands.submit([quick("out")])
    await commands.rig.until(again, lambda view: view["state"] == "running")
    assert await held_back(commands, again) == [("hand", 1)]
    assert (await hand.say("progress", rows={held: 0}, heard_until=held))["stopping"] == [held]
    await hand.say("progress", rows={}, heard_until=held)
    assert await held_back(commands, again) == []


async def test_what_cannot_be_compared_says_whose_fault_it_is(commands: CommandRig) -> None:
    _, task, _ = await cancelled_by_hand(commands)
    deployment = commands.rig.deployment
    async with deployment.database.connection() as connection:
        found = await read_task(connection, number_of("tsk", task))
        uri = await connection.fetchval("SELECT object FROM minion_subtask WHERE task_id = $1", found.task_id)
    gone = JobLine(0, deployment.inputs.own("uploads/upl_0/gone.jsonl"), 0, 10)
    with pytest.raises(InputUnreadable) as own:
        await still_running(deployment, found, [gone])
    assert "the jobs of this task cannot be read" in str(own.value)
    assert "hand" not in str(own.value)

    store, key = deployment.inputs.place(uri)
    await store.delete([key])
    again = await commands.submit([quick("out")])
    view = await commands.rig.ended(again)
    assert view["state"] == "failed"
    assert "may still run on hand, " in view["state_reason"]
    assert "`minions executors abandon NAME`" in view["state_reason"]


async def test_a_retry_sees_what_was_cancelled_while_it_looked(commands: CommandRig) -> None:
    """Another retry came first, was handed out and was cancelled: its job may run."""
    _, task, held = await cancelled_by_hand(commands)
    task_id = number_of("tsk", task)
    async with commands.rig.deployment.database.connection() as connection:
        executor = await connection.fetchval("SELECT executor_id FROM minion_subtask_stopping")
        await connection.execute("DELETE FROM minion_subtask_stopping")
        async with connection.transaction():
            await tasks.lock_task(connection, task_id)
            late = asyncio.create_task(commands.rig.http.post(f"/api/v1/tasks/{task}/retry", json={}))
            await until_blocked(connection)
            assert await retries.reopen_task(connection, task_id, TaskState.RUNNING, None)
            assert await retries.retry_subtasks(connection, task_id, None, "by a test")
            (again,) = await acquirements.acquire_from_tasks(connection, [executor], [task_id])
            assert again.acquirement_id > number_of("acq", held)
            await end_early(connection, task_id, TaskState.CANCELLED, "by a test")
        (await late).raise_for_status()
    assert await held_back(commands, task) == [("hand", 1)]
