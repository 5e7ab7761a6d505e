"""Beats: how the server hears of this executor, at once when its state changes and regularly in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from minions.domain.errors import MinionsError, SessionReplaced
from minions.domain.phrases import shortened, with_zone
from minions.executor.hearing import UNSETTLED_BEAT_SECONDS
from minions.executor.server_link import ServerLink
from minions.executor.session import Session
from minions.runtime.loops import happens
from minions.wire.executor import BeatAnswer, ExecutorState, HeartbeatRequest, Offer, ProgressRequest

_IDLE_BEAT_SECONDS = 60.0
_FLICKER_SECONDS = 1.0  # states of work that follow one another faster are told once
_REASON_CHARACTERS = 500

Sample = Callable[[list[int]], Awaitable[dict[str, float]]]
"""sample(rows done so far in each subtask under way): numbers for charts."""


class Beats:
    """Keeps the state of the executor, and tells it. What the owner wants stands before what the work is doing."""

    def __init__(
        self,
        link: ServerLink,
        sample: Sample,
        on_lost: Callable[[Session, list[str]], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """on_lost(session, acquirements) hears what the server says is not this executor's any more."""
        self._link = link
        self._sample = sample
        self._on_lost = on_lost
        self._monotonic = monotonic
        self.leaves: Callable[[], dict[str, str]] = dict
        self._device: dict[str, Any] | None = None
        self._work: tuple[ExecutorState, str] = ("starting", "")
        self._owner: tuple[ExecutorState, str] | None = None
        self._offer: Offer | None = None
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()

    @property
    def state(self) -> tuple[ExecutorState, str]:
        """The state and its reason."""
        return self._owner or self._work

    @property
    def work(self) -> tuple[ExecutorState, str]:
        """What the work is doing, whatever the owner wants."""
        return self._work

    @property
    def offer(self) -> Offer | None:
        """What is taken, if that changed since this executor registered."""
        return self._offer

    def note(self, state: ExecutorState, reason: str) -> None:
        """What the work is doing."""
        before = self.state
        self._work = (state, shortened(reason, _REASON_CHARACTERS))
        if self.state != before:
            self._changed.set()

    def note_owner(self, state: ExecutorState | None, reason: str = "") -> None:
        """What the owner wants; None: nothing that keeps it from working. The server hears of it without delay."""
        before = self.state
        self._owner = None if state is None else (state, shortened(reason, _REASON_CHARACTERS))
        if self.state != before:
            self._tell_now()

    def note_offer(self, offer: Offer) -> None:
        """What this executor takes from now on."""
        if offer != self._offer:
            self._offer = offer
            self._tell_now()

    def note_device(self, device: dict[str, Any]) -> None:
        """What this machine is, where that changed since the executor registered; told with the next heartbeat."""
        self._device = device

    def tell(self) -> None:
        """Send a heartbeat soon."""
        self._changed.set()

    def _tell_now(self) -> None:
        self._urgent.set()
        self._changed.set()

    @asynccontextmanager
    async def beating(self, session: Session) -> AsyncGenerator[None]:
        """Heartbeats and progress reports for as long as the block runs; a replaced session ends the block."""
        block = asyncio.current_task()
        assert block is not None
        replaced = False

        async def beat_on() -> None:
            nonlocal replaced
            try:
                await self._beat(session)
            except SessionReplaced:
                replaced = True
                block.cancel()

        beating = asyncio.create_task(beat_on())
        try:
            yield
        except asyncio.CancelledError:
            if replaced:
                block.uncancel()
                raise SessionReplaced from None
            raise
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def heartbeat(self, session: Session) -> None:
        """Tell the server how this executor is and what it holds, and drop what it says is not held any more."""
        state, reason = self.state
        reason = shortened(with_zone(reason, datetime.now().astimezone().tzname() or ""), _REASON_CHARACTERS)
        offer, device = self._offer, self._device
        runs = session.all_runs()
        claim = session.hearing.claim()
        answer = await self._link.heartbeat(
            HeartbeatRequest(
                executor=session.answer.executor,
                session=session.answer.session,
                state=state,
                reason=reason,
                holds=list(runs),
                heard_until=claim.heard_until,
                offer=offer,
                leaves=self.leaves(),
                device=device,
                sample=await self._sample([run.rows_done for run in runs.values()]),
            )
        )
        if self._device is device:
            self._device = None  # the server knows
        session.hearing.note(claim, answer.newest)
        self._on_lost(session, answer.lost)

    async def settle(self, session: Session) -> None:
        """Let the server take back what it handed out in an answer that was lost."""
        await session.hearing.settle(lambda: self.heartbeat(session))

    async def _beat(self, session: Session) -> None:
        """Raises SessionReplaced. Whatever else fails is tried again."""
        answer = session.answer
        heartbeat_at = self._monotonic()
        while True:
            is_heartbeat = self._changed.is_set() or self._monotonic() >= heartbeat_at
            self._changed.clear()
            self._urgent.clear()
            told = True
            try:
                if is_heartbeat:
                    await self.heartbeat(session)
                else:
                    self._on_lost(session, (await self._report(session)).lost)
            except SessionReplaced:
                raise
            except MinionsError:
                told = False  # the loop that asks for work tells the owner
            if is_heartbeat:
                heartbeat_at = self._monotonic() + (answer.heartbeat_seconds if told else 0)
            busy = session.runs or not told
            pause = min(answer.heartbeat_seconds, answer.progress_seconds if busy else _IDLE_BEAT_SECONDS)
            if told and not session.hearing.is_settled:
                pause = min(pause, UNSETTLED_BEAT_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()
                await happens(self._urgent, min(_FLICKER_SECONDS, answer.progress_seconds))

    async def _report(self, session: Session) -> BeatAnswer:
        rows = {acquirement: run.rows_waiting for acquirement, run in session.all_runs().items()}
        claim = session.hearing.claim()
        answer = await self._link.progress(
            ProgressRequest(
                executor=session.answer.executor,
                session=session.answer.session,
                rows=rows,
                heard_until=claim.heard_until,
            )
        )
        session.hearing.note(claim, answer.newest)
        return answer
