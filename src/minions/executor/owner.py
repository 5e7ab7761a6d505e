"""The owner: twice a second the machine is looked at, the policy decides, and the agent does what was decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from minions.domain.policy import (
    ASKING,
    Decision,
    Facts,
    Order,
    OwnerPolicy,
    Standing,
    State,
    decide,
)
from minions.executor.agent import Agent
from minions.executor.keep_awake import KeepAwake
from minions.executor.offering import Flags, offer_of
from minions.executor.orders import read_order, write_order
from minions.executor.workbench import Workbench
from minions.runtime.loops import happens
from minions.wire.executor import Offer

log = logging.getLogger(__name__)

_BUSY_SECONDS = 0.5  # the owner's return is answered in two looks, and must be within two seconds
_IDLE_SECONDS = 1.0
_SAME_REASON_SECONDS = 60.0  # a reason that only counts seconds is told anew so often
_EFFECT_SECONDS = 6.0
_MEGABYTE = 1024 * 1024


class Machine(Protocol):
    """What the owner's controller needs of this machine."""

    def read(self, policy: OwnerPolicy, *, is_working: bool, is_loaded: bool) -> Facts:
        """All that this policy asks for. Called in a thread; may take half a second."""
        ...

    def work_is_given_back(self) -> None:
        """Nothing is held any more: the system, which waits for this, may sleep."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """The last look: what was decided, on which facts, under which policy."""

    decision: Decision
    facts: Facts
    policy: OwnerPolicy
    problem: str


class Owner:
    """Runs the executor as its owner wants. `run` looks and acts until it is cancelled."""

    def __init__(
        self,
        agent: Agent,
        bench: Workbench,
        *,
        machine: Machine,
        policy: Callable[[], tuple[OwnerPolicy, str]],
        order_file: Path,
        flags: Flags,
        registered: Offer,
        keep_awake: KeepAwake | None = None,
    ) -> None:
        """policy(): the one in force, and what is wrong with the owner's file, if anything. registered: what the
        server is told when the executor registers."""
        self._agent = agent
        self._bench = bench
        self._machine = machine
        self._policy = policy
        self._order_file = order_file
        self.flags = flags
        self._registered = registered
        self._memory_mb = registered.memory_mb
        self._keep_awake = keep_awake or KeepAwake()
        self.order = read_order(order_file)
        self._standing = Standing()
        self._told: tuple[tuple[object, ...], str, float] = ((), "", 0.0)
        self._poked = asyncio.Event()
        self._turned = asyncio.Condition()
        self._turns_begun = self._turns_ended = 0
        self._thread = ThreadPoolExecutor(1, "owner")  # of its own: nothing else may keep a look waiting
        self.seen: Seen | None = None
        agent.hold()  # until the first look

    async def run(self) -> None:
        """Look, decide, act, wait; ends only by being cancelled."""
        try:
            while True:
                self._poked.clear()
                await self._turn()
                busy = self._standing.state in ASKING or self._agent.under_way or self._bench.engine_pid is not None
                await happens(self._poked, _BUSY_SECONDS if busy else _IDLE_SECONDS)
        finally:
            self._thread.shutdown(wait=False)
            await self._keep_awake.let_sleep()

    async def obey(self, order: Order) -> None:
        """Do what was ordered by hand; returns once it has taken effect. Raises OSError when it has, and cannot be kept
        for the next start: a full disk must not keep its owner from pausing."""
        self.order = order
        try:
            write_order(self._order_file, order)
        finally:
            await self.look_again()

    def order_at(self, now: datetime) -> Order:
        """What the owner ordered, or else what the circuit of a broken machine does in his place."""
        return self.order if self.order.stands(now) else self._agent.circuit.order() or self.order

    async def look_again(self) -> None:
        """Look at once, and return when what was decided is done."""
        wanted = self._turns_begun + 1
        self._poked.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_EFFECT_SECONDS), self._turned:
                await self._turned.wait_for(lambda: self._turns_ended >= wanted and not self._is_evicting)

    @property
    def _is_evicting(self) -> bool:
        return self._standing.state is State.EVICTING

    async def _turn(self) -> None:
        self._turns_begun += 1
        turn = self._turns_begun
        policy, problem = self._policy()
        facts = await self._facts(policy)
        if problem and (self.seen is None or self.seen.problem != problem):
            log.warning("%s", problem)
        decision = decide(policy, facts, self.order_at(facts.now), self._standing)
        if decision.state is not self._standing.state or self.seen is None:
            log.info("%s%s", decision.state, "".join(f"; {each.text}" for each in decision.reasons))
        self._standing = decision.standing
        woken = self.seen is not None and self.seen.facts.about_to_sleep and not facts.about_to_sleep
        self.seen = Seen(decision, facts, policy, problem)
        self._agent.limit_cache(policy.model_cache_limit_bytes)
        if woken or decision.slept_seconds > 0:
            log.info("this machine slept for %.0f s", decision.slept_seconds)
            self._agent.reconcile()
        await self._act(decision)
        if facts.about_to_sleep and not self._agent.under_way:
            self._machine.work_is_given_back()
        await self._offer(policy, facts.now)
        await self._keep_awake.set(decision.keep_awake)
        async with self._turned:
            self._turns_ended = turn
            self._turned.notify_all()

    async def _facts(self, policy: OwnerPolicy) -> Facts:
        working, loaded = bool(self._agent.under_way), self._bench.engine_pid is not None
        loop = asyncio.get_running_loop()
        try:
            facts = await loop.run_in_executor(
                self._thread, lambda: self._machine.read(policy, is_working=working, is_loaded=loaded)
            )
        except Exception as error:  # a look that fails tells nothing, and must not end the executor
            log.error("this machine could not be looked at: %s", type(error).__name__)
            facts = Facts(now=datetime.now().astimezone(), is_working=working, is_loaded=loaded)
        return facts

    async def _act(self, decision: Decision) -> None:
        agent, bench, why = self._agent, self._bench, self._why(decision)
        if not decision.may_acquire:
            agent.hold()
        match decision.state:
            case State.READY | State.BUSY:
                bench.proceed()
                agent.beats.note_owner(None)
                agent.let_go()
            case State.SUSPENDED:
                bench.suspend()
                agent.beats.note_owner("paused", why)
            case State.DRAINING:
                bench.proceed()
                agent.beats.note_owner("busy", f"ends what runs: {why}")
            case State.EVICTING:
                agent.beats.note_owner("stopping", why)
                await agent.evict(why)
                bench.proceed()
            case State.OFF | State.WAITING:
                bench.proceed()
                agent.beats.note_owner("paused", why)

    def _why(self, decision: Decision) -> str:
        """For the server: told anew when the reasons change, not each second that one of them counts."""
        about = (decision.state, *(each.topic for each in decision.reasons))
        now = asyncio.get_running_loop().time()
        known, text, at = self._told
        if known != about or now - at >= _SAME_REASON_SECONDS:
            text = "; ".join(each.text for each in decision.reasons)
            self._told = (about, text, now)
        return text

    async def _offer(self, policy: OwnerPolicy, now: datetime) -> None:
        offer = offer_of(self.flags, policy, now)
        if offer != (self._agent.beats.offer or self._registered):
            self._agent.take(offer)
            await self._limit_memory(offer.memory_mb)

    async def _limit_memory(self, memory_mb: int | None) -> None:
        had, self._memory_mb = self._memory_mb, memory_mb
        self._bench.limit_memory(memory_mb * _MEGABYTE if memory_mb is not None else None)
        is_less = memory_mb is not None and (had is None or memory_mb < had)
        if is_less and self._bench.engine_pid is not None:
            await self._agent.evict("the owner lends less memory now")
