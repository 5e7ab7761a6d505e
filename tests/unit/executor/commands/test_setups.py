"""Worktrees are made once, and a host that cannot make one says so without using up every job's attempts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from minions.executor.commands.setups import Setups
from minions.executor.commands.workplaces import Checkout, NotHere, SetupFailed, Workplace
from tests.unit.executor.commands.test_messages import ASSIGNED


class Preparing:
    """Makes worktrees, or fails, when it is let."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, _: Checkout) -> Workplace:
        self.made += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return Workplace(self.directory, {})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def enter(setups: Setups, task: str = "tsk_1") -> Workplace:
    async with setups.workplace(replace(ASSIGNED, task=task)) as workplace:
        return workplace


async def test_jobs_that_come_together_share_one_worktree(tmp_path: Path) -> None:
    prepare = Preparing(tmp_path)
    setups = Setups(prepare, lambda: None)
    entering = [asyncio.create_task(enter(setups)) for _ in range(3)]
    await asyncio.sleep(0)
    prepare.go.set()
    assert [each.directory for each in await asyncio.gather(*entering)] == [tmp_path] * 3
    assert prepare.made == 1


async def test_a_setup_that_fails_costs_one_job_an_attempt_and_the_task_is_left_alone_longer_each_time(
    tmp_path: Path,
) -> None:
    prepare, clock = Preparing(tmp_path), Clock()
    changes: list[int] = []
    setups = Setups(prepare, lambda: changes.append(1), clock)
    prepare.error = SetupFailed("no lockfile")
    prepare.go.set()
    found = await asyncio.gather(*(enter(setups, f"tsk_{number}") for number in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [SetupFailed, NotHere, NotHere]
    assert setups.leaves() == {f"tsk_{number}": "setup failed: no lockfile" for number in range(3)}
    assert changes
    with pytest.raises(NotHere, match="no lockfile"):
        await enter(setups)
    assert prepare.made == 1
    clock.now += 31
    assert setups.leaves() == {}
    with pytest.raises(SetupFailed):
        await enter(setups)
    clock.now += 31
    assert setups.leaves()
    clock.now += 30
    prepare.error = None
    assert (await enter(setups)).directory == tmp_path


async def test_a_commit_that_is_not_here_yet_is_no_attempt(tmp_path: Path) -> None:
    prepare, clock = Preparing(tmp_path), Clock()
    setups = Setups(prepare, lambda: None, clock)
    prepare.error = NotHere("not ready")
    prepare.go.set()
    with pytest.raises(NotHere):
        await enter(setups)
    assert setups.leaves() == {"tsk_1": "not ready"}
    clock.now += 2.1
    assert setups.leaves() == {}


async def test_a_worktree_is_held_however_long_no_job_uses_it(tmp_path: Path) -> None:
    clock = Clock()
    locks = [(tmp_path / name).open("ab") for name in ("first", "second")]
    given = iter(locks)

    async def prepare(_: Checkout) -> Workplace:
        return Workplace(tmp_path, {}, next(given))

    setups = Setups(prepare, lambda: None, clock)
    async with setups.workplace(ASSIGNED):
        clock.now += 100
        await enter(setups)
    assert [lock.closed for lock in locks] == [False, False]
    clock.now += 19
    await enter(setups)
    assert next(given, None) is locks[1], "nothing was looked up again"
    given = iter(locks[1:])
    clock.now += 100
    assert not locks[0].closed, "whoever prunes now leaves it alone"
    assert (await enter(setups)).held is locks[1], "it may have been made ready in another way since"
    assert [lock.closed for lock in locks] == [True, False]
    locks[1].close()


async def test_a_worktree_that_was_removed_is_made_again(tmp_path: Path) -> None:
    place = tmp_path / "worktree"
    place.mkdir()
    prepare = Preparing(place)
    prepare.go.set()
    setups = Setups(prepare, lambda: None)
    await enter(setups)
    place.rmdir()
    with pytest.raises(NotHere, match="was removed"):
        await enter(setups)
    place.mkdir()
    await enter(setups)
    assert prepare.made == 2
