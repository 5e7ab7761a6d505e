"""minions demo."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minions.commands.failures import INTERRUPTED
from minions.commands.up import until_stopped

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.client.progress import ProgressPrinter
    from minions.client.task import Task
    from minions.local.demo_work import Models
    from minions.local.up import Event, LocalDeployment
    from minions.wire.tasks import TaskView

_KILL_SHARE = 0.4
_VICTIM = 1
_INDENT = 12
_DOCSTRINGS = "docstrings.jsonl"
_SHOW_CURSOR = "\x1b[?25h"  # the bar that was there hid it, and its thread does not clear up any more


def command(
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where the demo's deployment is kept.", show_default=False),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="NUMBER", min=200, help="Only so many docstrings.", show_default=False),
    ] = None,
) -> None:
    """Do the main job on real input, on this machine.

    Starts a deployment with two executors on this machine, embeds the docstrings of Python's standard library,
    completes prompts about some of them, kills one executor half-way, proves that no row is missing, searches, and
    stops everything at the end.
    """
    from minions.runtime.settings_files import data_directory

    place = (data or data_directory(os.environ) / "demo").expanduser().absolute()
    if not asyncio.run(_demo(place, rows)):
        raise typer.Exit(INTERRUPTED)


async def _demo(place: Path, rows: int | None) -> bool:
    """Returns whether it came to its end."""
    from minions.local.up import LocalDeployment

    began = time.monotonic()
    threads = max(1, (os.cpu_count() or 2) // 2)
    deployment = LocalDeployment(
        place,
        port=0,
        executors=2,
        executor_flags=["--threads", str(threads)],
        executor_name="minion",
        on_event=_tell,
    )
    _title()

    async def tell_story() -> None:
        async with deployment:
            _step("Start", f"PostgreSQL, server, watchdog and two executors  ({time.monotonic() - began:.1f} s)")
            loop = asyncio.get_running_loop()

            def kill() -> None:
                loop.call_soon_threadsafe(lambda: deployment.kill_executor(_VICTIM, again=False))

            await _first(_in_thread(lambda: _story(deployment, kill, rows)), deployment.failed())

    is_complete = await until_stopped(deployment, tell_story())
    if not is_complete and sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
    _say(f"Stopped. {time.monotonic() - began:.0f} s in all; what was made stays in {place}.", "dim")
    return is_complete


def _tell(event: Event) -> None:
    if event.what == "the deployment" and event.happened == "stopping":
        _say("Stopping …", "dim")


async def _first(story: Coroutine[Any, Any, None], failure: Coroutine[Any, Any, None]) -> None:
    """Wait for the story's end, or for a part of the deployment that cannot be kept running, which is raised."""
    tasks = [asyncio.ensure_future(story), asyncio.ensure_future(failure)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()


async def _in_thread(work: Callable[[], None]) -> None:
    """Do it in a thread that ends with this process at the latest: when the server is gone, the client waits for it."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as found:
            error = found
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=run, daemon=True).start()
    await ended


def _story(deployment: LocalDeployment, kill: Callable[[], None], rows: int | None) -> None:
    from minions.client.client import Client
    from minions.local.demo_work import find_models

    models = find_models()
    folder = deployment.data / "input"
    folder.mkdir(exist_ok=True)
    docstrings = _input(folder, rows)
    with Client(deployment.server, deployment.token) as client:
        task = _embed(deployment, client, models, docstrings, kill)
        replies = _complete(deployment, client, models, folder)
        _prove(task, docstrings)
        _search(client, models, task)
        _show_replies(replies)
        _rates(task, replies)
    _own_file()


def _input(folder: Path, rows: int | None) -> Path:
    import platform

    from minions.local.docstrings import write

    path = folder / _DOCSTRINGS
    count = write(path)
    if rows is not None:
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:rows]), "utf-8")
        count = min(count, rows)
    size = path.stat().st_size / 1e6
    version = platform.python_version()
    _step("Input", f"{count:,} docstrings of Python {version}'s standard library, {size:.1f} MB of JSON lines")
    return path


def _views(deployment: LocalDeployment, task: Task) -> Iterator[TaskView]:
    """What a task is like, until it has ended; nothing more is shown once the deployment stops."""
    for view in task.follow(timeout=1800):
        if deployment.stopping:
            threading.Event().wait()  # for this process's end: to come to its own, the bar would be drawn once more
        yield view


def _embed(
    deployment: LocalDeployment, client: Client, models: Models, docstrings: Path, kill: Callable[[], None]
) -> Task:
    victim = deployment.executor_names[_VICTIM]
    where = "weights from a package" if models.packaged else "weights from the hub"
    _step("Embed", f"all-MiniLM-L6-v2 ({where}); two executors pull subtasks of one task")
    task = client.embed(docstrings, model=models.embedding, column="text", id="name", project="demo")
    killed_at = 0.0
    held: list[int] = []
    with _printer() as printer:
        for view in _views(deployment, task):
            printer.show(view)
            if not killed_at and view.done_share >= _KILL_SHARE and not task.ended:
                held = [each.subtask_id for each in task.subtasks("acquired") if each.executor == victim]
                if held:
                    kill()
                    killed_at = time.monotonic()
                    printer.note(("✗ ", "red"), (f"kill -9 of {victim}, which holds {_subtasks(held)}", "red"))
    _tell_recovery(task, victim, held)
    return task


def _tell_recovery(task: Task, victim: str, held: list[int]) -> None:
    """What the ledger says of the subtasks that the killed executor held."""
    events = [event for event in task.ledger() if event.subtask_id in held]
    lost = [event for event in events if event.entry == "lost"]
    if lost:
        what = _subtasks(sorted(event.subtask_id for event in lost))
        _note("↺", f"the watchdog gave back {what}: {lost[0].message}", "yellow")
    for event in events:
        if event.entry == "done" and event.executor != victim:
            _note("✓", f"subtask {event.subtask_id} was finished by {event.executor}", "green")


def _complete(deployment: LocalDeployment, client: Client, models: Models, folder: Path) -> Task:
    from minions.local import demo_work

    prompts = folder / "prompts.jsonl"
    demo_work.write_prompts(folder / _DOCSTRINGS, prompts)
    _step("Complete", f"{demo_work.PROMPTS} prompts about some of them with SmolLM2-135M, by llama.cpp in process")
    task = client.complete(
        prompts,
        model=models.completion,
        prompt=demo_work.PROMPT,
        id="name",
        max_tokens=demo_work.MAX_TOKENS,
        context_tokens=demo_work.CONTEXT_TOKENS,
        project="demo",
    )
    with _printer() as printer:
        for view in _views(deployment, task):
            printer.show(view)
    return task


def _prove(task: Task, docstrings: Path) -> None:
    from minions.domain.errors import MinionsError
    from minions.local.demo_work import prove

    rows = ((row["position"], row["id"], row["status"]) for row in task.rows())
    proof = prove(docstrings, rows)
    _step(
        "Proof",
        f"{proof.expected:,} rows in, {proof.found:,} out: {proof.missing} missing, {proof.doubled} doubled, "
        f"{proof.displaced} out of place, {proof.failed} failed; every part has its SHA-256",
    )
    if not proof.holds:
        raise MinionsError("the results are not what went in", hint="Please report this with the folder of the demo.")


def _search(client: Client, models: Models, task: Task) -> None:
    from minions.local.demo_work import QUESTIONS, nearest

    asked = client.embed(
        [{"text": question} for question in QUESTIONS], model=models.embedding, column="text", project="demo"
    ).wait(progress=False)
    vectors, names = _vectors(task)
    questions, _ = _vectors(asked)
    _step("Search", "three questions against the vectors")
    for question, found in zip(QUESTIONS, nearest(vectors, names, questions), strict=True):
        _note("?", question, "bold")
        for score, name in found:
            _note(" ", f"{score:.2f}  {name}", "")


def _vectors(task: Task) -> tuple[Any, list[str]]:
    import numpy

    table: Any = task.to_arrow()
    column = table.column("embedding").combine_chunks()
    names: list[str] = table.column("id").to_pylist() if "id" in table.column_names else []
    return numpy.asarray(column.flatten()).reshape(len(column), -1), names


def _show_replies(task: Task) -> None:
    _step("Replies", "three of the completions, by a model of 135 million parameters")
    shown = 0
    for row in task.rows():
        if row["status"] == "ok" and row["finish_reason"] == "stop":
            _note("·", f"{row['id']}: {' '.join(row['text'].split())}", "")
            shown += 1
        if shown == 3:
            return


def _rates(embedded: Task, completed: Task) -> None:
    _step(
        "Rates",
        f"{embedded.counts.ok / _seconds(embedded.view):,.0f} rows/s embedded, the kill included; "
        f"{completed.view.output_tokens / _seconds(completed.view):,.0f} tokens/s completed, loading included",
    )


def _seconds(view: TaskView) -> float:
    assert view.took_seconds is not None
    return max(view.took_seconds, 0.001)


def _own_file() -> None:
    _step("Yours", "start a deployment, then hand in a file of your own:")
    for line in (
        "minions up",
        "minions submit embed FILE.jsonl --model hf:BAAI/bge-small-en-v1.5 --column text --watch",
        "minions tasks results NAME -o vectors.parquet",
    ):
        _note("$", line, "bold")


def _subtasks(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"subtasks {', '.join(first)} and {last}" if first else f"subtask {last}"


def _printer() -> ProgressPrinter:
    from minions.client.progress import ProgressPrinter

    return ProgressPrinter(time.monotonic, indent=_INDENT)


def _title() -> None:
    from minions.commands.output import to_stderr

    to_stderr()
    to_stderr(("  Minions", "bold"), ("  a pool of two executors on this machine does a batch\n", "dim"))


def _step(name: str, text: str) -> None:
    from minions.commands.output import to_stderr

    to_stderr((f"  {name:<{_INDENT - 2}}", "bold cyan"), text, indent=_INDENT)


def _note(mark: str, text: str, style: str) -> None:
    from minions.commands.output import to_stderr

    start = " " * _INDENT, (mark, style or "dim"), " "
    to_stderr(*start, (text, style if style != "bold" else ""), indent=_INDENT + 2)


def _say(text: str, style: str) -> None:
    from minions.commands.output import to_stderr

    to_stderr()
    to_stderr((f"  {text}", style))
