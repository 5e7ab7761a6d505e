"""The process table of macOS, by sysctl: no library besides Python's own, since it travels to hosts in one file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct

from minions.domain.errors import MinionsError
from minions.executor.supervisor.processes import JOB_TOKEN, LAUNCHER_TOKEN, Process, parse_token

KINFO_BYTES = 648
_CTL_KERN, _KERN_PROC, _KERN_PROCARGS2 = 1, 14, 49
_ALL, _PID = 0, 1
_ZOMBIE = 5
_MICROSECONDS = 1_000_000
_SPARE_BYTES = 64 * KINFO_BYTES  # processes that start between the question for the size and that for the content


class ProcessTableUnknown(MinionsError):
    """This system describes its processes in a form that is not known."""

    code = "process_table_unknown"
    hint = "Commands cannot be supervised here; report the version of the system."


def parse_kinfo(data: bytes) -> list[Process]:
    """Source: struct kinfo_proc of sys/sysctl.h, 64 bit: p_starttime at 0, p_stat at 36, p_pid at 40, e_ppid and e_pgid
    at 560. The session is not in it. start: microseconds since 1970 by the clock of that moment, which stays."""
    found: list[Process] = []
    for at in range(0, len(data) - KINFO_BYTES + 1, KINFO_BYTES):
        seconds, microseconds = struct.unpack_from("<qi", data, at)
        (state,) = struct.unpack_from("<b", data, at + 36)
        (pid,) = struct.unpack_from("<i", data, at + 40)
        ppid, pgid = struct.unpack_from("<ii", data, at + 560)
        start = seconds * _MICROSECONDS + microseconds
        found.append(Process(pid, ppid, pgid, sid=0, start=start, is_zombie=state == _ZOMBIE))
    return found


def parse_environment(arguments: bytes) -> bytes:
    """The zero-separated environment in what KERN_PROCARGS2 answers: a count, the program, its arguments, then this."""
    if len(arguments) < 4:
        return b""
    (count,) = struct.unpack_from("<i", arguments)
    _, _, after_program = arguments[4:].partition(b"\0")
    entries = after_program.lstrip(b"\0").split(b"\0")
    return b"\0".join(entries[count:])


class MacProcesses:
    """Asked of the kernel. Between the check of a start and the signal, microseconds pass: there is no pidfd here."""

    def __init__(self) -> None:
        """Raises ProcessTableUnknown unless this process is described as what it is."""
        self._c = ctypes.CDLL(None, use_errno=True)
        own = self.look(os.getpid())
        if own is None or (own.ppid, own.pgid) != (os.getppid(), os.getpgrp()):
            raise ProcessTableUnknown

    def start_of(self, pid: int) -> int | None:
        found = parse_kinfo(self._sysctl(_CTL_KERN, _KERN_PROC, _PID, pid))
        return found[0].start if found and found[0].pid == pid else None

    def look(self, pid: int) -> Process | None:
        found = parse_kinfo(self._sysctl(_CTL_KERN, _KERN_PROC, _PID, pid))
        return self._complete(found[0]) if found and found[0].pid == pid else None

    def snapshot(self, since: int) -> list[Process]:
        known = parse_kinfo(self._sysctl(_CTL_KERN, _KERN_PROC, _ALL))
        complete = [self._complete(process) for process in known if process.start >= since]
        return [process for process in complete if process is not None]

    def children_of(self, pid: int) -> list[int] | None:
        return None

    def signal(self, pid: int, start: int, number: signal.Signals) -> bool:
        if self.start_of(pid) != start:
            return False
        try:
            os.kill(pid, number)
        except OSError:
            return False
        return True

    def boot_id(self) -> str:
        size = ctypes.c_size_t(64)
        buffer = ctypes.create_string_buffer(size.value)
        if self._c.sysctlbyname(b"kern.bootsessionuuid", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            raise ProcessTableUnknown("this system does not say when it was booted")
        return buffer.value.decode()

    def _complete(self, process: Process) -> Process | None:
        try:
            sid = os.getsid(process.pid)
        except PermissionError:
            sid = 0
        except OSError:
            return None
        environment = b""
        with contextlib.suppress(ValueError):
            environment = parse_environment(self._sysctl(_CTL_KERN, _KERN_PROCARGS2, process.pid))
        return Process(
            process.pid,
            process.ppid,
            process.pgid,
            sid,
            process.start,
            process.is_zombie,
            parse_token(environment, JOB_TOKEN),
            parse_token(environment, LAUNCHER_TOKEN),
        )

    def _sysctl(self, *name: int) -> bytes:
        """What the kernel answers; nothing for a process that is gone or of somebody else."""
        names = (ctypes.c_int * len(name))(*name)
        size = ctypes.c_size_t(0)
        none = ctypes.c_size_t(0)
        if self._c.sysctl(names, len(name), None, ctypes.byref(size), None, none) != 0:
            return b""
        size.value += _SPARE_BYTES
        buffer = ctypes.create_string_buffer(size.value)
        if self._c.sysctl(names, len(name), buffer, ctypes.byref(size), None, none) != 0:
            return b""
        return buffer.raw[: size.value]
