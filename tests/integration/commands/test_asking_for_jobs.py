"""Jobs of a large task, asked for by identity, in brief, and page after page; and what became of one of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.hosts.standings import attempts, read_job, read_standings
from tests.integration.commands.project import CommandRig, shell
from tests.integration.executor.deployment import ADMIN

_JOBS = 2_500  # three pages


@pytest.fixture
async def connection(commands: CommandRig) -> AsyncGenerator[AsyncConnection]:
    connection = AsyncConnection(commands.rig.url, ADMIN)
    yield connection
    await connection.close()


@pytest.mark.timeout(180)
async def test_every_job_of_a_large_task_stands_somewhere_and_one_is_asked_for_alone(
    commands: CommandRig, connection: AsyncConnection
) -> None:
    task = await commands.submit([(["true"], f"out/{number}") for number in range(_JOBS)])
    await commands.rig.until(task, lambda view: view["state"] == "running")
    wanted: dict[str, int] = {}
    for after in ("-1", "1999"):
        page = await connection.send(calls.jobs(task, 1000, after))
        wanted |= {str(job.id): job.index for job in page.data}
    assert len(wanted) == 1500
    found = await read_standings(connection, [*wanted, "f" * 64])
    assert {identity: each.index for identity, each in found.latest.items()} == wanted
    assert {each.state for each in found.latest.values()} == {"queued"}
    assert found.finished == {}
    last = max(wanted, key=lambda identity: wanted[identity])
    ((told, view),) = await read_job(connection, last)
    assert (told.id, view.index, view.argv, view.output) == (task, _JOBS - 1, ["true"], f"out/{_JOBS - 1}")
    page = await connection.send(calls.jobs(task, 1000, identity=last[:4]))
    assert {index for identity, index in wanted.items() if identity.startswith(last[:4])} <= {
        job.index for job in page.data if str(job.id).startswith(last[:4])
    }
    assert all(str(job.id).startswith(last[:4]) for job in page.data)
    assert await read_job(connection, "f" * 64) == []
    refused = await commands.rig.http.get(f"/api/v1/tasks/{task}/jobs?id=ABC")
    assert refused.status_code == 422


@pytest.mark.timeout(180)
async def test_in_brief_a_job_stands_as_it_does_in_full(commands: CommandRig, connection: AsyncConnection) -> None:
    given = [shell('echo x >"$1"', "a"), shell("echo why >&2; exit 3", "b")]
    async with commands.executor(slots=1):
        task = await commands.submit(given, retries=1)
        await commands.rig.ended(task)
    full = await connection.send(calls.jobs(task, 10))
    brief = await connection.send(calls.jobs(task, 10, brief=True))
    left_out = {"argv", "environment", "output", "link", "log_link"}
    assert [each.model_dump(exclude=left_out) for each in brief.data] == [
        each.model_dump(exclude=left_out) for each in full.data
    ]
    assert [(each.argv, each.output, each.link, each.log_link) for each in brief.data] == [(None, None, None, None)] * 2
    assert full.data[0].link
    assert full.data[1].log_link
    entries = await attempts(connection, task, 1)
    assert [entry.entry for entry in entries] == ["fault", "fault", "failed"]
    assert {entry.subtask_id for entry in entries} == {1}
    assert {entry.entry for entry in await attempts(connection, task, 0)} == {"part", "done"}


async def test_a_job_that_was_cancelled_with_many_others_is_told_so(
    commands: CommandRig, connection: AsyncConnection
) -> None:
    task = await commands.submit([(["true"], f"out/{number}") for number in range(30)])
    await commands.rig.until(task, lambda view: view["state"] == "running")
    await connection.send(calls.steer(task, "cancel"))
    (entry,) = await attempts(connection, task, 17)
    assert entry.entry == "cancelled"
    assert entry.subtask_id <= 17 < entry.subtask_id + entry.subtasks
    assert await attempts(connection, task, 30) == []
