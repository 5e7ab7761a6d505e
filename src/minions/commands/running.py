"""A run on the command line: its coordinator started or met again, the board, Ctrl-C, and what is said at the end."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from types import FrameType

from minions.commands.failures import ERROR, FAILED_ROWS, INTERRUPTED, report
from minions.commands.keys import read_key
from minions.commands.output import counted, print_json_line, span, to_stderr
from minions.commands.run_board import BoardPrinter
from minions.domain.errors import Conflict, MinionsError
from minions.hosts.fault_telling import by_reason
from minions.hosts.project import pin
from minions.hosts.project_file import ProjectFile, read_project
from minions.hosts.run_directory import RunDirectory, watching
from minions.hosts.status import Status, error_of, read_status

_POLL_SECONDS = 0.1
_STOP_SECONDS = 90.0
_GONE_POLLS = 5  # the status is read again before a coordinator that is gone counts as killed


def run(
    directory: RunDirectory, *, dirty: bool, selection: str | None, on_interrupt: str | None, json: bool, quiet: bool
) -> int:
    """Start the run, or watch the one that goes on; the exit code. Raises MinionsError."""
    project = read_project(directory.root)
    directory.make()
    with watching(directory):
        coordinator = _attach(directory, dirty or selection is not None) or _start(directory, dirty, selection)
        show = _printing(json, quiet)
        signal.signal(signal.SIGTERM, _interrupt)
        on_interrupt = on_interrupt or ("ask" if sys.stdin.isatty() and sys.stderr.isatty() else "stop")
        while True:
            try:
                with show:
                    status = coordinator.watch(show)
                return _said_end(status, project, quiet)
            except KeyboardInterrupt:
                choice = _asked() if on_interrupt == "ask" else on_interrupt
            if choice == "detach":
                to_stderr("Detached; the run goes on. Watch it again with `minions run`, end it with `minions stop`.")
                return INTERRUPTED
            if choice == "stop":
                return stop_coordinator(directory)


@dataclass
class _Coordinator:
    """The process that brings the run to its end. child: if we started it."""

    directory: RunDirectory
    name: str
    child: subprocess.Popen[bytes] | None = None

    def watch(self, show: BoardPrinter) -> Status:
        """Until the run has ended. Raises MinionsError when its coordinator is gone."""
        gone, full = 0, False
        while True:
            was_full, full = full, self.directory.is_full
            if full and not was_full:  # the coordinator may not even be able to write down that it is
                show.warn(f"The disk of {self.directory.root} is full. Free some space; the run goes on then.")
            status = read_status(self.directory.status)
            if status is not None and status.run == self.name:
                show.show(status)
                if status.phase == "ended":
                    return status
            gone = 0 if self._lives() else gone + 1
            if gone >= _GONE_POLLS:
                raise MinionsError(
                    "the coordinator of the run was killed",
                    hint=f"`minions run` goes on from there. Its log is {self.directory.coordinator_log}.",
                )
            time.sleep(_POLL_SECONDS)

    def _lives(self) -> bool:
        if self.child is not None:
            return self.child.poll() is None
        return self.directory.coordinator() is not None


def _attach(directory: RunDirectory, asked_for_more: bool) -> _Coordinator | None:
    """The coordinator that runs already; None when there is none. Raises Conflict."""
    process = directory.coordinator()
    status = read_status(directory.status)
    if process is None or status is None:
        return None
    if asked_for_more:
        raise Conflict(
            f"a run goes on in this project (process {process})",
            hint="Watch it with `minions run` without --dirty and --jobs, or end it with `minions stop`.",
        )
    head = asyncio.run(pin(directory.root))
    if status.commit and head != status.commit:
        to_stderr(f"The run that goes on is of commit {status.commit[:12]}; HEAD is {head[:12]} now.", style="yellow")
    return _Coordinator(directory, status.run)


def _start(directory: RunDirectory, dirty: bool, selection: str | None) -> _Coordinator:
    name = secrets.token_hex(8)
    flags = [*(["--dirty"] if dirty else []), *(["--jobs", selection] if selection is not None else [])]
    directory.coordinator_log.parent.mkdir(mode=0o700, exist_ok=True)
    with directory.coordinator_log.open("ab") as log:
        child = subprocess.Popen(
            # -P: the project's own modules must not take the place of ours
            [sys.executable, "-P", "-m", "minions.hosts.coordinator", str(directory.root), "--name", name, *flags],
            cwd=directory.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us, who ask what is meant
        )
    return _Coordinator(directory, name, child)


def stop_coordinator(directory: RunDirectory) -> int:
    """End the coordinator in order, with all that it has started; the exit code."""
    process = directory.coordinator()
    if not process:
        return INTERRUPTED
    to_stderr("Stopping: running jobs are ended and go back to the queue.")
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while directory.coordinator() is not None:
        if time.monotonic() > deadline:
            raise MinionsError(
                f"the coordinator (process {process}) does not end", hint=f"See {directory.coordinator_log}."
            )
        time.sleep(_POLL_SECONDS)
    to_stderr("Stopped. `minions run` goes on from here.")
    return INTERRUPTED


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _asked() -> str:
    to_stderr()
    keys = (
        ("d", "bold"),
        " or Ctrl-C: detach, the run goes on   ",
        ("s", "bold"),
        " stop it   any other key: watch on",
    )
    to_stderr(*keys)
    try:
        key = read_key()
    except KeyboardInterrupt:
        return "detach"
    return {"d": "detach", "s": "stop"}.get(key.lower(), "watch")


def _printing(json: bool, quiet: bool) -> BoardPrinter:
    if json:
        return _Lines()
    return BoardPrinter(None if quiet else sys.stderr, time.monotonic)


class _Lines(BoardPrinter):
    """A line of NDJSON for each change."""

    def __init__(self) -> None:
        super().__init__(None, time.monotonic)
        self._last: Status | None = None

    def show(self, status: Status) -> None:
        if self._last is None or replace(status, seconds=0) != replace(self._last, seconds=0):
            print_json_line(asdict(status))
        self._last = status


def _said_end(status: Status, project: ProjectFile, quiet: bool) -> int:
    """Say how it ended; the exit code."""
    if status.error is not None:
        return report(error_of(status.error))
    code = ERROR if status.exit_code is None else status.exit_code
    if quiet:
        return code
    if code == INTERRUPTED:
        to_stderr("It was stopped. `minions run` goes on from here.")
        return code
    before = f"; {status.skipped:,} of them were done before" if status.skipped else ""
    took = f" in {span(status.seconds)}" if status.done > status.skipped else ""
    style = "green" if code == 0 else "yellow"
    to_stderr((f"{status.done:,} of {counted(status.jobs, 'job')} are done{took}", style), f"{before}.")
    if status.nondeterministic:
        to_stderr(
            f"{counted(status.nondeterministic, 'job')} made another output than an earlier run: nondeterministic.",
            style="yellow",
        )
    if code == FAILED_ROWS:
        first = status.failures[0].index if status.failures else 0
        reasons = f": {by_reason(status.failed_by)}" if status.failed_by else ""
        to_stderr(f"{counted(status.failed, 'job')} failed{reasons}.", style="dim")
        to_stderr(f"See why with: minions explain {first}", style="dim")
        if status.failed > 1:
            to_stderr("List them with: minions ledger --failed", style="dim")
        to_stderr("Run them again with: minions run", style="dim")
    elif project.run.merge is not None and len(project.run.jobs) == status.jobs:
        to_stderr("Merge the outputs with: minions merge", style="dim")
    return code
