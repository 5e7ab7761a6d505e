"""Running an executor process until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from dataclasses import replace

import httpx

from minions.domain.errors import MinionsError, SessionReplaced
from minions.executor.agent import Agent
from minions.executor.device import describe, find_ollama, installed_engines, model_memory_mb
from minions.executor.identity import own_state
from minions.executor.plan import pause_seconds
from minions.executor.server_link import ServerLink
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.runtime.loops import unless
from minions.runtime.version import VERSION
from minions.wire.executor import RegisterRequest

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
        memory_mb = model_memory_mb(settings)
        request = RegisterRequest(
            instance=instance,
            name=settings.name,
            owner=settings.owner,
            version=VERSION,
            device=await asyncio.to_thread(describe),
            kinds=[kind for kind in ("embed", "complete") if kind in settings.kinds],
            engines=installed_engines(settings),
            memory_mb=memory_mb,
            preferences=list(settings.preferences),
        )
        async with (
            ServerLink.open(settings.server, settings.token, _say_away) as link,
            httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=4)) as client,
        ):
            agent: Agent | None = None

            def tell(what: str) -> None:
                if agent is not None:
                    agent.tell(what)

            limit = memory_mb * _MEGABYTE if memory_mb is not None else None
            bench = Workbench(logs=settings.state, memory_limit_bytes=limit, tell=tell)
            agent = Agent(settings, link, client, bench)
            await _until_stopped(agent, link, request)


async def _until_stopped(agent: Agent, link: ServerLink, request: RegisterRequest) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        agent.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    working = asyncio.create_task(work_in_sessions(agent, link, request, stopped))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait({working}, timeout=None if working.done() else _MOST_STOPPING_SECONDS)
    stopping.cancel()
    if working.done():
        working.result()
        return
    log.warning("the executor did not end in time; what it held goes back with its lease")
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


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


def _say_away(error: MinionsError | None) -> None:
    if error is None:
        log.info("the server is back")
    else:
        log.warning("%s; trying again until it is back", error.message)
