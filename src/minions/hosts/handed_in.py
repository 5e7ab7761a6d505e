"""What a run has handed in: what earlier coordinators did goes on, and nothing is given to two executors at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.errors import Conflict
from minions.hosts.following import Following
from minions.hosts.handing_in import hand_in, same_terms
from minions.hosts.records import PAGE
from minions.hosts.resume import OpenTask, submission
from minions.hosts.run_directory import Run, RunDirectory
from minions.hosts.standings import Unended
from minions.hosts.telling import Telling


@dataclass(slots=True)
class _WindingDown:
    """A paused task, which hands out nothing more. held: places of wanted jobs that were held at the last look, by
    their numbers in it. is_followed: whether there were any."""

    task: str
    held: dict[int, int]
    is_followed: bool


class HandedIn:
    """The tasks of one run: begun with `begin`, looked after with `settle`."""

    def __init__(
        self,
        connection: AsyncConnection,
        directory: RunDirectory,
        run: Run,
        following: Following,
        telling: Telling,
    ) -> None:
        self._connection = connection
        self._directory = directory
        self._run = run
        self._following = following
        self._telling = telling
        self._winding_down: list[_WindingDown] = []

    async def begin(self, places: Sequence[int], open_tasks: Sequence[Unended]) -> None:
        """Go on with what an earlier coordinator handed in, and hand in the others. No host knows this server yet, so
        nothing moves meanwhile."""
        unended = {each.task.id: each for each in open_tasks}
        plan = submission(
            self._run.jobs, places, [self._open_task(each) for each in open_tasks], may_run_twice=self._run.idempotent
        )
        for task in plan.cancel:
            await self._connection.send(calls.steer(task, "cancel"))
        for task in plan.keep:
            if unended[task].task.paused:
                await self._connection.send(calls.steer(task, "resume"))
            self._following.follow(task, unended[task].open)
        for task in plan.wind_down:
            await self._connection.send(calls.steer(task, "pause"))
            self._wind_down(unended[task], places)
        await self._hand_in(plan.submit)

    async def settle(self, is_near: Callable[[str], bool]) -> None:
        """Hand in what was given back of tasks that wind down, and end those of which nobody holds what is wanted.

        is_near: whether a host with this name hears at once that what it runs is not wanted. Raises Unavailable.
        """
        for each in list(self._winding_down):
            holders = await self._holders(each.task)
            if let_go := [number for number in each.held if number not in holders]:
                await self._hand_in_given_back(each, let_go)
            if each.held:
                continue
            if each.is_followed:
                await self._following.leave(each.task)
                each.is_followed = False
            if all(is_near(name) for name in holders.values()):
                with suppress(Conflict):  # it has just ended by itself
                    await self._connection.send(calls.steer(each.task, "cancel"))
                self._winding_down.remove(each)

    def _open_task(self, each: Unended) -> OpenTask:
        return OpenTask(
            each.task.id,
            same_terms(each.task, self._run),
            each.open,
            frozenset(each.held),
            is_split=each.task.state not in ("submitted", "splitting"),
        )

    def _wind_down(self, each: Unended, places: Sequence[int]) -> None:
        wanted = {self._run.jobs[place][1]: place for place in places}
        held = {job.index: wanted[identity] for identity, job in each.held.items() if identity in wanted}
        self._winding_down.append(_WindingDown(each.task.id, held, bool(held)))
        if held:
            self._following.follow(each.task.id, [self._run.jobs[place][1] for place in held.values()])
            hosts = sorted({job.host or "a host" for identity, job in each.held.items() if identity in wanted})
            self._telling.say(
                f"jobs that {', '.join(hosts)} had begun: {len(held):,}; they end on the terms of the run before"
            )

    async def _hand_in_given_back(self, each: _WindingDown, numbers: Sequence[int]) -> None:
        """Of those that are held no more; the others have an end."""
        again: list[int] = []
        for number in numbers:
            page = await self._connection.send(calls.jobs(each.task, 1, str(number - 1)))
            if page.data[0].state == "queued":
                again.append(each.held[number])
        self._following.let_go(each.task, [self._run.jobs[place][1] for place in again])
        await self._hand_in(again)
        for number in numbers:
            del each.held[number]

    async def _hand_in(self, places: Sequence[int]) -> None:
        if places:
            self._telling.act("the jobs are handed in")
            task = await hand_in(self._connection, self._directory, self._run, places)
            self._following.follow(task.id, [self._run.jobs[place][1] for place in places])
            self._telling.act("")

    async def _holders(self, task: str) -> dict[int, str]:
        """Who holds what of a task: names of executors by numbers of jobs."""
        found: dict[int, str] = {}
        after: str | None = None
        while True:
            page = await self._connection.send(calls.subtasks(task, "acquired", PAGE, after))
            found |= {each.subtask_id: each.executor or "" for each in page.data}
            if not page.has_more:
                return found
            after = page.last_id
