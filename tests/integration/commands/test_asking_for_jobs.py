"""Jobs of a large task, asked for by identity, in brief, and page after page; and what became of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.jobs import Job, Pinned, job_id
from minions.hosts import following
from minions.hosts.delivering import Deliveries
from minions.hosts.progress import RunProgress
from minions.hosts.run_directory import Run, RunDirectory
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
    ((unended, jobs, held),) = [(each.task.id, each.open, each.held) for each in found.unended]
    assert (unended, len(jobs), held) == (task, _JOBS, {}), "every task that is open is told whole"
    assert jobs >= set(wanted)
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


async def test_outputs_that_never_arrived_are_sent_for_wherever_the_ledger_has_them(
    commands: CommandRig, connection: AsyncConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a coordinator that died: no job runs again. Pages are of two jobs here, so what lies between is left."""
    monkeypatch.setattr(following, "PAGE", 2)
    given = [shell(f'echo {number} >"$1"', f"out/{number}") for number in range(7)]
    async with commands.executor(slots=2):
        for jobs in (given[:4], given[4:]):
            await commands.rig.ended(await commands.submit(jobs))
    pinned = Pinned(commands.project.commit, None, {})
    jobs = [Job(number, tuple(argv), output, {}) for number, (argv, output) in enumerate(given)]
    run = Run(pinned.commit, None, "0" * 16, (), [(job, job_id(pinned, job)) for job in jobs], selected=tuple(range(7)))
    known = (await read_standings(connection, [identity for _, identity in run.jobs])).finished
    wanted = (0, 3, 5, 6)
    directory = RunDirectory(tmp_path / "run")
    directory.root.mkdir()
    directory.make()
    brought: list[int] = []
    deliveries = Deliveries(
        connection,
        directory,
        on_done=lambda delivery: brought.append(delivery.place),
        on_given_up=lambda delivery, reason: pytest.fail(f"{delivery.output}: {reason}"),
        say=lambda _: None,
    )
    progress = RunProgress(frozenset(run.selected), frozenset(), 0.0)
    seen = following.Following(connection, run, progress, deliveries, say=lambda _: None)
    await seen.fetch({place: known[run.jobs[place][1]] for place in wanted})
    bringing = asyncio.create_task(deliveries.run())
    await deliveries.settled()
    bringing.cancel()
    assert sorted(brought) == list(wanted)
    found = {str(path.relative_to(directory.root)): path.read_text() for path in directory.root.glob("out/*")}
    assert found == {f"out/{place}": f"{place}\n" for place in wanted}
