"""Waiting for a task on the command line: the bar, Ctrl-C, the exit code, and what is said at the end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from minions.commands.failures import ERROR, FAILED_ROWS, INTERRUPTED, OK
from minions.commands.output import counted, print_json, print_json_line, span, to_stderr

if TYPE_CHECKING:
    from minions.client.task import Task
    from minions.wire.tasks import TaskView


def wait_for(task: Task, timeout: float | None, quiet: bool, json: bool, stream_json: bool = False) -> int:
    """Wait with a progress line on stderr; returns the exit code. stream_json: a line of NDJSON for each change."""
    from minions.client.progress import ProgressPrinter

    last: TaskView | None = None
    try:
        if stream_json:
            for view in task.follow(timeout):
                if view != last:
                    print_json_line(view.model_dump(mode="json"))
                last = view
        elif quiet:
            for _ in task.follow(timeout):
                pass
        else:
            with ProgressPrinter(time.monotonic, sys.stderr) as printer:
                for view in task.follow(timeout):
                    printer.show(view)
    except KeyboardInterrupt:
        to_stderr(f"Detached; {task.name} goes on. Come back with: minions tasks watch {task.id}")
        return INTERRUPTED
    if json and not stream_json:
        print_json(task.view.model_dump(mode="json"))
    if not quiet and not stream_json:
        say_end(task.view)
    return exit_code(task.view)


def exit_code(view: TaskView) -> int:
    """0: every row worked; 5: some rows failed; 1: the task failed or was cancelled."""
    if view.state != "completed":
        return ERROR
    return FAILED_ROWS if view.rows.failed else OK


def say_end(view: TaskView) -> None:
    """One sentence about how it ended, and what to do next."""
    rows = view.rows.ok + view.rows.failed
    took = "" if view.took_seconds is None else f" in {span(view.took_seconds)}"
    if view.state == "completed":
        failed = f", {view.rows.failed:,} of them failed" if view.rows.failed else ""
        to_stderr((f"{view.task_name} is complete", "green"), f": {counted(rows, 'row')}{took}{failed}.")
        if view.rows.failed:
            to_stderr(f"See why with: minions tasks errors {view.id}", style="dim")
            to_stderr(f"Run them again with: minions tasks retry {view.id}", style="dim")
        to_stderr(f"Fetch the results with: minions tasks results {view.id}", style="dim")
        return
    style = "red" if view.state == "failed" else "yellow"
    reason = f": {view.state_reason}" if view.state_reason else ""
    to_stderr((f"{view.task_name} {'has failed' if view.state == 'failed' else 'was cancelled'}", style), f"{reason}.")
    if rows:
        to_stderr(f"{counted(rows, 'row')} can be had: minions tasks results {view.id} --partial", style="dim")
