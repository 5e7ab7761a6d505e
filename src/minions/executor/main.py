"""Running an executor process until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime

import httpx

from minions.domain.errors import MinionsError, SessionReplaced
from minions.domain.policy import OwnerPolicy
from minions.executor.agent import Agent
from minions.executor.circuit import Circuit
from minions.executor.control.desk import Desk
from minions.executor.control.server import control_channel
from minions.executor.device import describe, find_ollama, installed_engines, model_memory_mb
from minions.executor.facts_file import MachineOfFile
from minions.executor.history import History
from minions.executor.identity import own_state
from minions.executor.offering import Flags, offer_of
from minions.executor.owner import Machine, Owner
from minions.executor.owner_watch import OwnerFileWatcher
from minions.executor.places import CIRCUIT_FILE, HISTORY_FILE, ORDER_FILE, PREFERENCES_FILE
from minions.executor.plan import pause_seconds
from minions.executor.probes.reader import FactReader
from minions.executor.server_link import ServerLink
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.runtime.loops import unless
from minions.runtime.version import VERSION
from minions.wire.executor import Offer, RegisterRequest

log = logging.getLogger(__name__)

_MEGABYTE = 1024 * 1024
_MOST_STOPPING_SECONDS = 5.0
_SHORT_SESSION_SECONDS = 300.0


async def run_executor(settings: ExecutorSettings) -> None:
    """Work until SIGTERM or SIGINT; then release what is held within two seconds.

    Raises Conflict when the state directory is in use, AccessDenied when the server refuses the token.
    """
    settings.cache.mkdir(parents=True, exist_ok=True)
    if settings.ollama_url is None:
        settings = replace(settings, ollama_url=await find_ollama())
    with own_state(settings.state) as instance:
        policy = policy_of(settings)
        if settings.owner_file is not None and not settings.owner_file.exists():
            log.info("there is no owner's file at %s: this machine is lent at any time", settings.owner_file)
        flags = Flags(settings.kinds, settings.preferences, settings.memory_mb, model_memory_mb(settings))
        offer = offer_of(flags, policy()[0], datetime.now().astimezone())
        request = RegisterRequest(
            instance=instance,
            name=settings.name,
            owner=settings.owner,
            version=VERSION,
            device=await asyncio.to_thread(describe, settings),
            kinds=offer.kinds,
            engines=installed_engines(settings),
            memory_mb=offer.memory_mb,
            preferences=offer.preferences,
        )
        async with _machine(settings) as machine, _parts(settings, offer) as (agent, bench, link, server):
            owner = Owner(
                agent,
                bench,
                machine=machine,
                policy=policy,
                order_file=settings.state / ORDER_FILE,
                flags=flags,
                registered=offer.model_copy(update={"teams": None}),
            )
            stopped = asyncio.Event()

            def stop() -> None:
                stopped.set()
                agent.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, stop)
            history = settings.state / HISTORY_FILE
            desk = Desk(owner, agent, bench, settings, history, stop=stop, server_problem=server.problem)
            with control_channel(desk, settings.state):
                await _until_stopped(agent, owner, link, request, stopped)


def policy_of(settings: ExecutorSettings) -> Callable[[], tuple[OwnerPolicy, str]]:
    """Reads the policy in force, and what is wrong with the owner's file. Without a file, the machine is dedicated."""
    no_file = settings.state / "no owner's file"
    watcher = OwnerFileWatcher(settings.owner_file or no_file, settings.state / PREFERENCES_FILE)

    def look() -> tuple[OwnerPolicy, str]:
        watched = watcher.look()
        return watched.policy, watched.problem

    return look


@asynccontextmanager
async def _machine(settings: ExecutorSettings) -> AsyncGenerator[Machine]:
    if settings.facts_file is not None:
        yield MachineOfFile(settings.facts_file)
        return
    probes = FactReader(settings.cache, [settings.state, settings.cache])
    await asyncio.to_thread(probes.start)
    try:
        yield probes
    finally:
        await asyncio.to_thread(probes.close)


class _ServerSeen:
    """Whether the server answers; people are told when that changes."""

    def __init__(self) -> None:
        self._away = ""

    def problem(self) -> str:
        return self._away

    def say(self, error: MinionsError | None) -> None:
        self._away = "" if error is None else error.message
        if error is None:
            log.info("the server is back")
        else:
            log.warning("%s; trying again until it is back", error.message)


@asynccontextmanager
async def _parts(
    settings: ExecutorSettings, offer: Offer
) -> AsyncGenerator[tuple[Agent, Workbench, ServerLink, _ServerSeen]]:
    server = _ServerSeen()
    async with (
        ServerLink.open(settings.server, settings.token, server.say) as link,
        httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=4)) as client,
    ):
        agent: Agent | None = None

        def tell(what: str) -> None:
            if agent is not None:
                agent.tell(what)

        limit = offer.memory_mb * _MEGABYTE if offer.memory_mb is not None else None
        bench = Workbench(logs=settings.state, memory_limit_bytes=limit, tell=tell)
        agent = Agent(
            settings,
            link,
            client,
            bench,
            history=History(settings.state / HISTORY_FILE),
            circuit=Circuit(settings.state / CIRCUIT_FILE),
            device=lambda: describe(settings),
        )
        yield agent, bench, link, server


async def _until_stopped(
    agent: Agent, owner: Owner, link: ServerLink, request: RegisterRequest, stopped: asyncio.Event
) -> None:
    working = asyncio.create_task(work_in_sessions(agent, link, request, stopped))
    owning = asyncio.create_task(owner.run())
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({working, stopping, owning}, return_when=asyncio.FIRST_COMPLETED)
        if owning.done() and not stopped.is_set():
            agent.stop()  # nobody would stop the work when the owner comes back
        await asyncio.wait({working}, timeout=None if working.done() else _MOST_STOPPING_SECONDS)
        if not working.done():
            log.warning("the executor did not end in time; what it held goes back with its lease")
    finally:
        for task in (working, stopping, owning):
            task.cancel()
        await asyncio.gather(working, stopping, owning, return_exceptions=True)
    for task in (working, owning):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def work_in_sessions(agent: Agent, link: ServerLink, request: RegisterRequest, stopped: asyncio.Event) -> None:
    """Register and work; when the server has forgotten the session, register again."""
    replaced = 0
    while not stopped.is_set():
        answer = await unless(stopped, link.register(request))
        if answer is None:
            return
        log.info("registered as %s (%s)", answer.executor, request.name)
        began = time.monotonic()
        try:
            await agent.work(answer)
            return
        except SessionReplaced as error:
            # Two processes that replace each other for ever, because somebody copied a state directory, should not do
            # so every second.
            replaced = replaced + 1 if time.monotonic() - began < _SHORT_SESSION_SECONDS else 1
            log.warning("%s Registering again.", error.message)
            await unless(stopped, asyncio.sleep(pause_seconds(2 + replaced, random.random())))
