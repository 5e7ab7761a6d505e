"""The desk: answers what the owner asks over the control channel, and passes on what is ordered."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from minions.domain.errors import Conflict, FieldError, MinionsError, ValidationFailed
from minions.domain.names import Preference
from minions.domain.policy import Order, OrderKind, State, TimedPreference, describe
from minions.executor.agent import Agent
from minions.executor.control.messages import OrderRequest, PreferRequest, Reason, Status, Wish, Work
from minions.executor.evening_preferences import forget_preferences, prefer
from minions.executor.history import read_history
from minions.executor.offering import offer_of
from minions.executor.owner import Owner, Seen
from minions.executor.places import PREFERENCES_FILE
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.runtime.version import VERSION


class Desk:
    """What the channel gives access to; used from the executor's loop, except `history`."""

    def __init__(
        self,
        owner: Owner,
        agent: Agent,
        bench: Workbench,
        settings: ExecutorSettings,
        history_file: Path,
        *,
        stop: Callable[[], None],
        server_problem: Callable[[], str],
    ) -> None:
        """server_problem(): what is the matter with the server; empty when it answers."""
        self._owner = owner
        self._agent = agent
        self._bench = bench
        self._settings = settings
        self._history_file = history_file
        self._stop = stop
        self._server_problem = server_problem

    def status(self) -> Status:
        """What this machine is doing and why. Raises Conflict before the first look at it."""
        seen = self._owner.seen
        if seen is None:
            raise Conflict("the executor is only just starting", hint="Ask again in a moment.")
        decision, order = seen.decision, self._owner.order
        if not order.stands(seen.facts.now):
            order = Order()
        offer = offer_of(self._owner.flags, seen.policy, seen.facts.now)
        settings = self._settings
        return Status(
            name=settings.name,
            server=settings.server,
            version=VERSION,
            pid=os.getpid(),
            state_directory=str(settings.state),
            owner_file=str(settings.owner_file) if settings.owner_file is not None else None,
            state=decision.state.value,
            since=decision.since,
            sentence=self._sentence(seen),
            reasons=[
                Reason(topic=each.topic.name.lower(), text=each.text, since=each.since, until=each.until)
                for each in decision.reasons
            ],
            problem="; ".join(filter(None, (seen.problem, self._server_problem()))),
            order=order.kind,
            order_until=order.until,
            work=self._work(),
            engine_loaded=self._bench.engine_pid is not None,
            kinds=list(offer.kinds),
            teams=offer.teams,
            memory_mb=offer.memory_mb,
            preferences=offer.preferences,
            wishes=[
                Wish(preference=str(each.preference), until=each.until)
                for each in seen.policy.preferences
                if each.until is not None and each.holds(seen.facts.now)
            ],
        )

    def history(self, most: int) -> list[dict[str, Any]]:
        """What ran here, newest first."""
        return read_history(self._history_file, most)

    async def order(self, request: OrderRequest) -> Status:
        """Pause, finish or resume; returns what became of it."""
        now = datetime.now().astimezone()
        if request.kind is OrderKind.RESUME:
            self._agent.forgive()
            await self._obey(Order())
        else:
            await self._obey(Order(request.kind, now, _local(request.until, now)))
        return self.status()

    async def prefer(self, request: PreferRequest) -> Status:
        """Work on these first. Raises ValidationFailed, naming the preference that is none."""
        now = datetime.now().astimezone()
        until = _local(request.until, now)
        try:
            wanted = [TimedPreference(Preference.parse(text), until) for text in request.preferences]
        except ValueError as error:
            raise ValidationFailed([FieldError("preferences", "bad_preference", str(error))]) from None
        with self._writing():
            file = self._settings.state / PREFERENCES_FILE
            if not wanted:
                forget_preferences(file)
            for each in reversed(wanted):
                prefer(file, each, now)
        await self._owner.look_again()
        return self.status()

    async def reload(self) -> Status:
        """Read the owner's file at once."""
        await self._owner.look_again()
        return self.status()

    def stop(self) -> None:
        """End the executor, as SIGTERM does."""
        self._stop()

    async def _obey(self, order: Order) -> None:
        with self._writing("; it counts all the same, until this executor ends"):
            await self._owner.obey(order)

    @contextmanager
    def _writing(self, so: str = "") -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise MinionsError(
                f"{self._settings.state} cannot be written to: {(error.strerror or 'unknown').lower()}{so}"
            ) from None

    def _work(self) -> list[Work]:
        return [
            Work(
                team=run.assignment.team,
                project=run.assignment.project,
                task_name=run.assignment.task_name,
                subtask=run.assignment.subtask_id,
                kind=run.assignment.kind,
                model=run.assignment.model,
                rows=run.rows_done,
                seconds=round(run.seconds, 1),
            )
            for run in self._agent.under_way
        ]

    def _sentence(self, seen: Seen) -> str:
        tasks = ", ".join(dict.fromkeys(each.task for each in self._work()))
        problem = "; ".join(filter(None, (seen.problem, self._server_problem())))
        state, reason = self._agent.beats.work
        if tasks and state == "busy" and self._bench.loaded is None and reason:
            tasks = f"{tasks} ({reason})"  # no row is done before the model is there, which may take long
        sentence = describe(seen.decision, seen.facts, tasks, problem)
        if seen.decision.state is State.READY and state == "idle" and reason and not problem:
            return f"ready: {reason}"
        return sentence


def _local(moment: datetime | None, now: datetime) -> datetime | None:
    """In this machine's zone, as people read it here."""
    if moment is None:
        return None
    with suppress(OverflowError, OSError, ValueError):
        return moment.astimezone(now.tzinfo)
    raise ValidationFailed([FieldError("until", "invalid", "that time is out of range")])
