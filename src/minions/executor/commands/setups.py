"""Setups: worktrees that are ready or on their way, each made once for all jobs that want it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO

from minions.executor.commands.messages import Assigned
from minions.executor.commands.workplaces import Checkout, NotHere, Prepare, SetupFailed, Workplace, checkout_of

_FIRST_PAUSE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 600.0
_NOT_HERE_SECONDS = 2.0
_UNUSED_SECONDS = 20.0
_MOST_LEFT = 256


@dataclass(slots=True)
class _Setup:
    """users: jobs there. held: its lock, until this executor ends: it may be paused for long between two jobs, and
    nobody may prune meanwhile what the run still needs. failures: how often in a row it was not to be had. tasks: those
    that wanted it, and are left alone until then, for that reason."""

    work: asyncio.Task[Workplace] | None = None
    users: int = 0
    used_at: float = 0.0
    held: IO[bytes] | None = None
    failures: int = 0
    reason: str = ""
    until: float = 0.0
    tasks: set[str] = field(default_factory=set[str])


class Setups:
    """on_change() is told when a task is left alone."""

    def __init__(
        self, prepare: Prepare, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._prepare = prepare
        self._on_change = on_change
        self._monotonic = monotonic
        self._setups: dict[Checkout, _Setup] = {}

    @asynccontextmanager
    async def workplace(self, assigned: Assigned) -> AsyncGenerator[Workplace]:
        """Where the job runs.

        Raises SetupFailed, which is an attempt, for one job that met it; NotHere for the others, of which it says
        nothing, and while the commit is not on this host.
        """
        checkout = checkout_of(assigned)
        setup = self._setups.setdefault(checkout, _Setup())
        if setup.until > self._monotonic():
            raise NotHere(setup.reason)
        if not setup.users and self._monotonic() - setup.used_at > _UNUSED_SECONDS:
            setup.work = None  # another run may have made it ready in another way
        is_first = setup.work is None
        if setup.work is None:
            setup.work = asyncio.create_task(self._make(checkout, setup))
        setup.tasks.add(assigned.task)
        setup.users += 1
        try:
            workplace = await self._made(setup.work, setup, is_first)
            if not workplace.directory.is_dir():
                setup.work = None
                raise NotHere(f"the worktree {workplace.directory} was removed")
            yield workplace
        finally:
            setup.users -= 1
            setup.used_at = self._monotonic()

    @staticmethod
    async def _made(work: asyncio.Task[Workplace], setup: _Setup, is_first: bool) -> Workplace:
        try:
            return await asyncio.shield(work)
        except SetupFailed:
            if is_first:
                raise
            raise NotHere(setup.reason) from None

    async def _make(self, checkout: Checkout, setup: _Setup) -> Workplace:
        try:
            workplace = await self._prepare(checkout)
        except NotHere as error:
            self._note(setup, str(error), _NOT_HERE_SECONDS)
            raise
        except Exception as error:
            setup.failures += 1
            pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** (setup.failures - 1), _LONGEST_PAUSE_SECONDS)
            self._note(setup, f"setup failed: {error}", pause)
            if isinstance(error, SetupFailed):
                raise
            raise SetupFailed(f"{type(error).__name__}: {error}") from error
        before, setup.held = setup.held, workplace.held
        if before is not None and before is not setup.held:
            before.close()
        setup.failures = 0
        return workplace

    def _note(self, setup: _Setup, reason: str, seconds: float) -> None:
        setup.work = None
        setup.reason = reason
        setup.until = self._monotonic() + seconds
        self._on_change()

    def leaves(self) -> dict[str, str]:
        """The tasks that are left alone for now, each with the reason."""
        now = self._monotonic()
        found = [(task, each.reason) for each in self._setups.values() if each.until > now for task in each.tasks]
        return dict(found[:_MOST_LEFT])
