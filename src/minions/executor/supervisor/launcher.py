"""The launcher: a small process that forks jobs, writes down who they are, reads what they print and reaps them.

It is a process of its own because the executor is large, has threads and may be killed: a fork of this one is cheap and
safe, jobs keep a reader for their output when the executor dies, and exactly what was asked for reaches exec. It ends
when the executor is gone and no child is left.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from minions.executor.supervisor.command import argv_sha256
from minions.executor.supervisor.fork import Held, fork_held
from minions.executor.supervisor.journal import JournalFile
from minions.executor.supervisor.messages import (
    Closed,
    Ended,
    Finish,
    Message,
    Ready,
    Refused,
    Spawn,
    Started,
    as_bytes,
    pack,
    unpack,
)
from minions.executor.supervisor.output_pump import OutputPump
from minions.executor.supervisor.process_table import process_table
from minions.executor.supervisor.processes import LAUNCHER_TOKEN, ProcessTable
from minions.executor.supervisor.record import LauncherRecord, Record
from minions.executor.supervisor.subreaper import become_subreaper

_CHUNK_BYTES = 1 << 18
_PIPE_PIECES = 32
_MAXRSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(slots=True)
class _Job:
    order: Spawn
    held: Held
    record: Record
    stdout: OutputPump
    stderr: OutputPump
    let_go_at: float = 0.0
    has_ended: bool = False
    is_reported: bool = False


class Launcher:
    """One for each executor that runs commands. `run` returns when there is nothing left to do."""

    def __init__(self, control: socket.socket, directory: Path, token: str, table: ProcessTable, adopts: bool) -> None:
        pid = os.getpid()
        self._own = LauncherRecord(pid, table.start_of(pid) or 0, table.boot_id(), token)
        self._journal = JournalFile(directory, self._own)
        self._table = table
        self._adopts = adopts
        self._control = control
        self._is_alone = False
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._has_dead = False
        self._held: list[_Job] = []
        self._jobs: dict[str, _Job] = {}
        self._leaders: dict[int, _Job] = {}
        self._selector = selectors.DefaultSelector()
        self._children, waker = os.pipe()
        for descriptor in (self._children, waker, control.fileno()):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, _note)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._selector.register(control, selectors.EVENT_READ, self._take_orders)
        self._selector.register(self._children, selectors.EVENT_READ, self._note_death)

    def run(self) -> None:
        """Work until the executor is gone and no child is left."""
        self._say(Ready(self._own.pid, self._own.start))
        self._speak()
        is_childless = True
        while not (self._is_alone and is_childless):
            for key, _ in self._selector.select():
                key.data()
            self._let_go()  # before the reaper: a child that died at its gate is a job by now
            is_childless = self._reap() if self._has_dead or self._is_alone else False
            self._speak()
        for job in self._jobs.values():
            self._close(job)
        self._journal.remove()

    def _take_orders(self) -> None:
        try:
            chunk = self._control.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._is_alone = True
            self._selector.unregister(self._control)
            return
        self._incoming += chunk
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = rest
        for line in lines:
            match unpack(bytes(line)):
                case Spawn() as order:
                    self._spawn(order)
                case Finish() as finish:
                    self._finish(finish)
                case _:
                    pass

    def _spawn(self, order: Spawn) -> None:
        """Up to the gate. What fails here costs this job only."""
        with contextlib.ExitStack() as undo:
            try:
                stdout = OutputPump(order.stdout, order.head_bytes, order.tail_bytes)
                undo.callback(_drop, stdout)
                stderr = OutputPump(order.stderr, order.head_bytes, order.tail_bytes)
                undo.callback(_drop, stderr)
                argv = [as_bytes(each) for each in order.argv]
                environment = {as_bytes(name): as_bytes(value) for name, value in order.environment}
                held = fork_held(argv, environment, as_bytes(order.directory), stdout.writer, stderr.writer)
            except OSError as error:
                where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
                self._say(Refused(order.token, f"{where}{error.strerror}"))
                return
            undo.pop_all()
        stdout.release_writer()
        stderr.release_writer()
        pid = held.pid
        start = self._table.start_of(pid) or 0
        record = Record(order.job, order.token, pid, pid, pid, start, self._own.boot_id, argv_sha256(argv))
        self._held.append(_Job(order, held, record, stdout, stderr))

    def _let_go(self) -> None:
        """All that wait at their gates, after one flush of the journal for all of them."""
        waiting, self._held = self._held, []
        if not waiting:
            return
        try:
            self._journal.started([job.record for job in waiting])
        except OSError as error:
            for job in waiting:
                job.held.gate.close()
                job.stdout.close()
                job.stderr.close()
                self._say(Refused(job.order.token, f"its record cannot be written: {error.strerror}"))
            return
        for job in waiting:
            self._jobs[job.order.token] = self._leaders[job.held.pid] = job
            for pump in (job.stdout, job.stderr):
                self._selector.register(pump.pipe, selectors.EVENT_READ, partial(self._pump, job, pump))
            job.let_go_at = time.monotonic()
            with contextlib.suppress(OSError):  # it was killed at its gate: the reaper says so
                job.held.let_go()
            self._say(Started(job.order.token, asdict(job.record)))

    def _pump(self, job: _Job, pump: OutputPump) -> None:
        if pump.is_closed:  # the reaper closed it in this same round
            return
        pump.pump_once()
        if pump.has_ended:
            self._end(pump)
            self._report_closed(job)

    def _note_death(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._children, 4096)
        self._has_dead = True

    def _reap(self) -> bool:
        """Collect every child that ended, orphans of jobs too. Answers whether there is no child left at all."""
        self._has_dead = False
        ended: list[tuple[_Job, int, int]] = []
        is_childless = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                is_childless = True
                break
            if pid == 0:
                break
            job = self._leaders.pop(pid, None)
            if job is not None:
                ended.append((job, status, usage.ru_maxrss * _MAXRSS_UNIT_BYTES))
        orphans = self._has_orphans() if ended else None
        for job, status, peak_memory_bytes in ended:
            self._report_ended(job, status, peak_memory_bytes, orphans)
        return is_childless

    def _report_ended(self, job: _Job, status: int, peak_memory_bytes: int, has_orphans: bool | None) -> None:
        job.has_ended = True
        seconds = time.monotonic() - job.let_go_at
        for pump in (job.stdout, job.stderr):
            # What is in the pipe now, and no more: what outlives the job may print for ever.
            for _ in range(_PIPE_PIECES):
                if not pump.pump_once():
                    break
            if pump.has_ended:
                self._end(pump)
        has_leftovers = True if _group_lives(job.record.pgid) else has_orphans
        fault = job.held.fault()
        self._say(Ended(job.order.token, status, seconds, peak_memory_bytes, has_leftovers, fault))
        if has_leftovers is False:
            self._journal.gone(job.order.token)
        self._report_closed(job)

    def _has_orphans(self) -> bool | None:
        """Whether there are children that are nobody's first process; None when the system cannot tell."""
        children = self._table.children_of(self._own.pid) if self._adopts else None
        if children is None:
            return None
        return any(child not in self._leaders for child in children)

    def _finish(self, finish: Finish) -> None:
        if finish.is_gone:
            self._journal.gone(finish.token)
        job = self._jobs.get(finish.token)
        if job is not None:
            self._close(job)
            self._report_closed(job)

    def _close(self, job: _Job) -> None:
        for pump in (job.stdout, job.stderr):
            self._end(pump)

    def _end(self, pump: OutputPump) -> None:
        """Out of the selector first: a child at its gate has a copy of the pipe, which would keep it in there."""
        if not pump.is_closed:
            self._selector.unregister(pump.pipe)
            pump.close()

    def _report_closed(self, job: _Job) -> None:
        if job.has_ended and job.stdout.is_closed and job.stderr.is_closed and not job.is_reported:
            job.is_reported = True
            del self._jobs[job.order.token]
            tail = job.stderr.output.last(job.order.stderr_tail_bytes).decode(errors="replace")
            fault = job.stdout.fault or job.stderr.fault
            sizes = job.stdout.output.total_bytes, job.stderr.output.total_bytes
            self._say(Closed(job.order.token, *sizes, tail, fault))

    def _say(self, message: Message) -> None:
        self._outgoing += pack(message)

    def _speak(self) -> None:
        """Never waits: an executor that is stopped for a while must not hold up its jobs."""
        if self._is_alone:
            self._outgoing.clear()
            return
        try:
            del self._outgoing[: self._control.send(self._outgoing) if self._outgoing else 0]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()  # gone: its end of the connection says so next
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._control, events, self._take_orders)


def _note(_number: int, _frame: FrameType | None) -> None:
    """The wakeup descriptor does the work; an ignored signal would not be written there."""


def _drop(pump: OutputPump) -> None:
    pump.release_writer()
    pump.close()


def _group_lives(pgid: int) -> bool:
    """Its first process was reaped: whoever answers is another member."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main() -> None:
    """argv: …, the descriptor of the connection to the supervisor, the directory of journals."""
    descriptor, directory = int(sys.argv[-2]), Path(sys.argv[-1])
    os.set_inheritable(descriptor, False)
    token = os.environ[LAUNCHER_TOKEN]
    # A service manager signals everybody; the executor stops its jobs in order, and this process with them.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    launcher = Launcher(socket.socket(fileno=descriptor), directory, token, process_table(), become_subreaper())
    gc.freeze()  # a fork copies no page for the sake of the collector
    launcher.run()


if __name__ == "__main__":
    main()
