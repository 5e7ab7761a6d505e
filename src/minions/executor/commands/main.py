"""Running an executor of commands until it is told to stop; on a host, this is what the file that was sent there begins
with."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from minions.domain.errors import MinionsError, SessionReplaced
from minions.executor.commands import messages
from minions.executor.commands.agent import Agent
from minions.executor.commands.delivery import Delivery
from minions.executor.commands.http import Http
from minions.executor.commands.inputs import InputStore
from minions.executor.commands.job_lines import JobLines
from minions.executor.commands.machine import describe, host_lock, memory_mb
from minions.executor.commands.messages import Assigned, Session
from minions.executor.commands.outbox import Outbox
from minions.executor.commands.run_job import Bench
from minions.executor.commands.runs import NotSwept
from minions.executor.commands.server_link import SERVER_FILE, ServerLink
from minions.executor.commands.settings import CommandSettings
from minions.executor.commands.standing import told
from minions.executor.commands.workplaces import Prepare, Worktrees
from minions.executor.identity import own_state
from minions.executor.supervisor.stopping import Grace
from minions.executor.supervisor.supervisor import supervise
from minions.executor.supervisor.sweep import sweep

log = logging.getLogger(__name__)

SUPERVISED = "supervisor"
_MOST_THREADS = 64


def main() -> int:
    """`run --state DIR --home HOME --name NAME --slots N`, with the token as a line of standard input, or
    `sweep --state DIR`. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="minions-remote")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("run", "sweep"):
        verbs.add_parser(verb).add_argument("--state", type=Path, required=True)
    run = verbs.choices["run"]
    run.add_argument("--home", type=Path, required=True)
    run.add_argument("--name", required=True)
    run.add_argument("--slots", type=int, required=True)
    run.add_argument("--owner", default="")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        if given.verb == "sweep":
            _print_sweep(given.state.expanduser())
        else:
            _run_on_host(given)
    except MinionsError as error:
        log.error("%s %s", error.message, error.advice)
        return 1
    return 0


def _print_sweep(state: Path) -> None:
    report = asyncio.run(sweep(state / SUPERVISED))
    said = {"jobs": len(report.jobs), "stopped": report.stopped, "complaints": list(report.complaints)}
    sys.stdout.write(json.dumps({"is_clean": report.is_clean, **said}) + "\n")


def _run_on_host(given: argparse.Namespace) -> None:
    state = given.state.expanduser()
    version = Path(sys.argv[0]).stem.rpartition("-")[2]
    with host_lock(state, version):
        token = sys.stdin.readline().strip()
        server = (state / SERVER_FILE).read_text("utf-8").strip()
        settings = CommandSettings(server, token, given.name, state, given.slots, owner=given.owner, version=version)
        asyncio.run(run_commands(settings, Worktrees(given.home.expanduser())))


async def run_commands(settings: CommandSettings, prepare: Prepare) -> None:
    """Work until SIGTERM or SIGINT, or until it is drained; then what it holds is given back.

    What an earlier run left behind is stopped first, what it finished is delivered, and only then is the server told
    that this executor begins anew, which gives the rest back. Raises Conflict when the state directory is in use,
    NotSwept, AccessDenied when the server refuses the token.
    """
    stopped = asyncio.Event()
    with (
        own_state(settings.state) as instance,
        _signals(stopped),
        contextlib.closing(Http(min(2 * settings.slots + 8, _MOST_THREADS))) as http,
    ):
        link = ServerLink(http, settings.server, settings.token, settings.state)
        link.on_away = _say
        outbox = Outbox(settings.state / "outbox")
        grace = Grace(term_seconds=settings.term_seconds)
        async with supervise(settings.state / SUPERVISED, grace=grace) as supervisor:
            if not supervisor.swept.is_clean:
                raise NotSwept("; ".join(supervisor.swept.complaints))
            if supervisor.swept.jobs:
                log.warning("%d jobs of an earlier run were stopped", len(supervisor.swept.jobs))
            delivery = Delivery(link, outbox)
            if await _unless(stopped, delivery.deliver_left()) is None and stopped.is_set():
                return
            bench = Bench(
                settings,
                supervisor,
                outbox,
                JobLines(lambda place, between: link.download(place, between=between)),
                InputStore(settings.state / "inputs"),
                lambda assigned, path, target: _fetch(link, sessions[-1], assigned, path, target),
            )
            sessions: list[Session] = []
            device = describe(settings)
            agent = Agent(settings, link, bench, delivery, prepare, device)
            async with told(settings.state, agent.standing):
                await _work(settings, link, agent, instance, device, sessions, stopped)


async def _work(
    settings: CommandSettings,
    link: ServerLink,
    agent: Agent,
    instance: str,
    device: dict[str, Any],
    sessions: list[Session],
    stopped: asyncio.Event,
) -> None:
    """Register and work; when the server has forgotten the session, register again."""
    request = messages.register(instance, settings.name, settings.owner, settings.version, device, memory_mb())
    stopping = asyncio.create_task(stopped.wait())
    stopping.add_done_callback(lambda _: agent.stop())
    replaced = 0
    try:
        while not stopped.is_set():
            answer = await _unless(stopped, link.patiently("register", request))
            if answer is None:
                return
            sessions.append(Session(answer["executor"], answer["session"]))
            log.info("registered as %s (%s)", answer["executor"], settings.name)
            try:
                await agent.work(answer)
                return
            except SessionReplaced as error:
                replaced += 1
                log.warning("%s Registering again.", error.message)
                await _unless(stopped, link.pause(2 + replaced))
    finally:
        stopping.cancel()


async def _fetch(link: ServerLink, session: Session, assigned: Assigned, path: str, target: Path) -> None:
    """An input that is not in the commit."""
    found = await link.call("links", messages.links(session, assigned.acquirement, assigned.line[0]))
    for file in found.get("command_files", ()):
        if file["path"] == path:
            await link.download(file["link"], target=target)
            return
    raise MinionsError(f"the server has no input {path}")


@contextlib.contextmanager
def _signals(stopped: asyncio.Event) -> Generator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _unless(stopped: asyncio.Event, work: Any) -> Any:
    """What the work returns; None when it was stopped meanwhile."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for each in (doing, stopping):
            each.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)


def _say(error: MinionsError | None) -> None:
    if error is None:
        log.info("the server is back")
    else:
        log.warning("%s; jobs go on, and outputs are kept until it is back", error.message)
