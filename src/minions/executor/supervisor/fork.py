"""Forking a job: a child that is all set and waits at a gate, to become the command or to go away."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

_READY = b"r"
_LET_GO = b"g"
_GATE_CLOSED = 125
_CANNOT_EXEC = 127
_FAULT_BYTES = 4096
_READY_SECONDS = 5.0
_SHOWN_BYTES = 200


@dataclass(frozen=True, slots=True)
class Held:
    """A child at its gate. Its session and its group have its own number."""

    pid: int
    gate: socket.socket

    def let_go(self) -> None:
        """Let it become the command, once it has its own session and ends by a signal as any other process does.

        One that has not come to its gate for a while is not waited for, and finds it open.
        """
        with contextlib.suppress(TimeoutError):
            if self.gate.recv(1) != _READY:
                return
        self.gate.send(_LET_GO)

    def fault(self) -> str:
        """Once it has ended: why it did not become the command; empty if it did."""
        try:
            self.gate.settimeout(0)
            said = self.gate.recv(_FAULT_BYTES).removeprefix(_READY).decode()
        except OSError:
            said = ""
        self.gate.close()
        what, _, number = said.rpartition(":")
        return f"{what}: {os.strerror(int(number))}" if number else ""


def fork_held(
    argv: Sequence[bytes], environment: Mapping[bytes, bytes], directory: bytes, stdout: int, stderr: int
) -> Held:
    """Fork a child that leads a session of its own and waits. When its gate closes, by our death too, it goes away.

    Raises OSError when no process can be made. No shell waits in its place: that would change the environment, say
    other things than the system does, and run a file that is no program as a script.
    """
    gate, theirs = socket.socketpair()
    try:
        pid = os.fork()
    except OSError:
        gate.close()
        theirs.close()
        raise
    if pid == 0:
        gate.close()
        _wait_and_become(theirs, argv, environment, directory, (stdout, stderr))
    theirs.close()
    gate.settimeout(_READY_SECONDS)  # somebody may stop the child, or the machine be busy: the launcher goes on
    return Held(pid, gate)


def _wait_and_become(
    gate: socket.socket,
    argv: Sequence[bytes],
    environment: Mapping[bytes, bytes],
    directory: bytes,
    outputs: tuple[int, int],
) -> NoReturn:
    """Runs in the child, in which nothing may be raised."""
    doing = "a session"
    try:
        os.setsid()
        _reset_signals()
        gate.send(_READY)
        if gate.recv(1) != _LET_GO:
            os._exit(_GATE_CLOSED)
        doing = "the input and the outputs"
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        doing = f"the directory {_shown(directory)}"
        os.chdir(directory)
        doing = f"the program {_shown(argv[0])}"
        os.execvpe(argv[0], list(argv), environment)
    except OSError as error:
        gate.send(f"{doing}:{error.errno or 0}".encode())
    except BaseException:  # whatever it is: a copy of the launcher must not go on
        gate.send(f"{doing}:0".encode())
    finally:
        os._exit(_CANNOT_EXEC)


def _shown(name: bytes) -> str:
    return ascii(os.fsdecode(name[:_SHOWN_BYTES]))


def _reset_signals() -> None:
    """Python ignores SIGPIPE, and the launcher what would end it; ignored signals stay so across exec."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
