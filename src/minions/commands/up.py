"""minions up."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minions.commands import services
from minions.commands.failures import ERROR, report
from minions.domain.errors import Unavailable

if TYPE_CHECKING:
    from minions.local.up import Event, LocalDeployment


def command(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", envvar="MINIONS_DATA", help="Where everything is kept."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 7878,
    executors: Annotated[int, typer.Option("--executors", metavar="NUMBER", min=0, max=64, help="How many.")] = 1,
    no_executor: Annotated[bool, typer.Option("--no-executor", help="The same as --executors 0.")] = False,
    owner_file: Annotated[
        Path | None,
        typer.Option(
            "--owner-file", metavar="FILE", help="When its executors may work. Default: at any time, whoever is here."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="NUMBER", min=1, help="CPU threads of each executor's engines.")
    ] = None,
    ollama_url: Annotated[
        str | None, typer.Option("--ollama-url", metavar="URL", help="Default: this machine's, if it runs.")
    ] = None,
    openai_url: Annotated[
        str | None, typer.Option("--openai-url", metavar="URL", help="Offer a local OpenAI-compatible server.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the web interface, signed in.")] = False,
) -> None:
    """Run a whole deployment on this machine.

    That is PostgreSQL, a folder of objects, a server, a watchdog and executors, reached from this machine only.
    Everything is kept in one directory; Ctrl-C stops all of it in order.
    """
    from minions.commands.executor.foreground import machine_name
    from minions.runtime.settings_files import data_directory

    with services.needing("up"):
        from minions.local.up import LocalDeployment

    flags = [
        part
        for name, value in (
            ("--threads", threads),
            ("--ollama-url", ollama_url),
            ("--openai-url", openai_url),
            ("--owner-file", owner_file.expanduser().absolute() if owner_file is not None else None),
        )
        if value is not None
        for part in (name, str(value))
    ]

    async def run() -> None:
        deployment = LocalDeployment(
            data or data_directory(os.environ),
            port=port,
            executors=0 if no_executor else executors,
            executor_flags=flags,
            executor_name=machine_name(),
            on_event=_tell,
        )
        await _keep_up(deployment, open_)

    try:
        asyncio.run(run())
    except Unavailable as error:  # a part of ours; not the server that a client asks
        report(error)
        raise typer.Exit(ERROR) from None


async def _keep_up(deployment: LocalDeployment, show: bool) -> None:
    """Until it is told to stop, or until a part cannot be kept running."""
    began = time.monotonic()

    async def serve() -> None:
        async with deployment:
            link = await deployment.sign_in_link()
            _welcome(deployment, link, time.monotonic() - began)
            if show:
                import webbrowser

                webbrowser.open(link)
            await deployment.failed()

    await until_stopped(deployment, serve())


async def until_stopped(deployment: LocalDeployment, work: Coroutine[Any, Any, None]) -> bool:
    """Do it, or stop the deployment in order at SIGINT, SIGTERM or SIGHUP; a second signal hurries.

    Returns whether it came to its end.
    """
    working = asyncio.create_task(work)

    def stop() -> None:
        if deployment.stopping:
            deployment.hurry()
        else:
            working.cancel()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:  # nohup
            loop.add_signal_handler(each, stop)
    try:
        await working
    except asyncio.CancelledError:
        return False
    return True


def _welcome(deployment: LocalDeployment, link: str, seconds: float) -> None:
    from minions.commands.output import counted, to_stderr
    from minions.runtime.settings_files import data_directory

    home = deployment.data == data_directory(os.environ).expanduser().absolute()
    prefix = "" if home else f"MINIONS_DATA={shlex.quote(str(deployment.data))} "
    names = deployment.executor_names
    who = f"{counted(len(names), 'executor')}: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    lines = (
        ("open", link),
        ("", f"signs in once, within 15 minutes; `{prefix}minions open` makes another"),
        ("data", str(deployment.data)),
        ("work", who if names else "no executor; `minions executor` starts one"),
        ("submit", f"{prefix}minions submit embed FILE.jsonl --model hf:BAAI/bge-small-en-v1.5"),
        ("watch", f"{prefix}minions tasks ls"),
        ("stop", "Ctrl-C"),
    )
    to_stderr(("● ", "green"), "Minions is ready at ", (deployment.server, "bold"), (f"  {seconds:.1f} s", "dim"))
    to_stderr()
    for name, text in lines:
        to_stderr((f"  {name:<8}", "dim"), text, indent=10)
    to_stderr()


def _tell(event: Event) -> None:
    from minions.commands.output import to_stderr

    marks = {"creating": ("◌ ", "blue"), "restarting": ("◆ ", "yellow"), "stopping": ("◌ ", "blue")}
    sentence = str(event)
    if event.what == "the deployment":
        sentence = {
            "creating": f"First start: {event.detail.removeprefix('creates its database in ')} is set up.",
            "stopping": "Stopping; what executors hold is given back. Ctrl-C again hurries.",
            "stopped": "Stopped. All data stays; `minions up` goes on from here.",
        }.get(event.happened, sentence)
    to_stderr(marks.get(event.happened, ("○ ", "dim")), sentence)
