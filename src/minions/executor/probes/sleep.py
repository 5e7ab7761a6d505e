"""Sleep: told by the system just before it sleeps, and asking it to wait until the leases are given back."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from typing import Protocol

from minions.executor.probes import macos_sleep

_END_SECONDS = 10.0  # a shell that is killed leaves behind what it started; it ends by itself in a blink
HOLD_SECONDS = 4.0  # less than the five that logind grants, far less than macOS's thirty
_LOGIND = "/org/freedesktop/login1"
# Both end when their standard input does, so that neither outlives this process, however that ends. The shell lets go
# of the output: its end then tells that gdbus has ended, and the shell is ended before it could signal a number that by
# then may be another process.
_LISTEN = f"gdbus monitor --system --dest org.freedesktop.login1 --object-path {_LOGIND}"
_UNTIL_INPUT_ENDS = "{} & exec >/dev/null; cat; kill $!"
_INHIBIT = "exec systemd-inhibit --what=sleep --mode=delay --who=minions --why='work is given back' cat"


def parse_signal(line: str) -> bool | None:
    """One line of `gdbus monitor`: True before sleep, False after it, None for everything else."""
    found = re.search(r"\.login1\.Manager\.PrepareForSleep \((true|false),?\)", line)
    return found[1] == "true" if found else None


class _Watch(Protocol):
    """What SleepWatch needs of a system."""

    def start(self) -> None: ...
    def close(self) -> None: ...


class SleepWatch:
    """about_to_sleep becomes True when the system says that it will sleep. It then waits until `work_is_given_back` is
    called, for HOLD_SECONDS at most."""

    def __init__(self, listen: str = _LISTEN, inhibit: str = _INHIBIT) -> None:
        self.about_to_sleep: bool | None = None
        self._given_back = threading.Event()
        self._watch: _Watch
        if sys.platform == "darwin":
            self._watch = macos_sleep.PowerNotices(self.will_sleep, self.has_woken)
        else:
            self._watch = _Logind(self, listen, inhibit)

    def start(self) -> None:
        """Begin to listen; where nothing can be heard, about_to_sleep stays None."""
        self._watch.start()

    def work_is_given_back(self) -> None:
        """Nothing is held any more: the system may sleep."""
        self._given_back.set()

    def close(self) -> None:
        """Stop listening."""
        self._given_back.set()
        self._watch.close()

    def will_sleep(self) -> None:
        """Called by the system's own thread; returns when it may go on."""
        self._given_back.clear()
        self.about_to_sleep = True
        self._given_back.wait(HOLD_SECONDS)

    def has_woken(self) -> None:
        """Called after sleep, and when listening began."""
        self.about_to_sleep = False


class _Logind:
    """Listens to logind and holds a delay lock; without either there is no notice, and the lease runs out instead."""

    def __init__(self, watch: SleepWatch, listen: str, inhibit: str) -> None:
        self._watch = watch
        self._commands = (_UNTIL_INPUT_ENDS.format(listen), inhibit)
        self._monitor: subprocess.Popen[str] | None = None
        self._lock: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._monitor = subprocess.Popen(
            ["/bin/sh", "-c", self._commands[0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        self._thread = threading.Thread(target=self._listen, args=(self._monitor,), name="sleep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._unlock()
        if self._monitor is None:
            return
        assert self._monitor.stdin is not None
        with contextlib.suppress(OSError):
            self._monitor.stdin.close()
        try:
            self._monitor.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._monitor.kill()
            self._monitor.wait()
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
        if self._monitor.stdout is not None:
            self._monitor.stdout.close()

    def _listen(self, monitor: subprocess.Popen[str]) -> None:
        assert monitor.stdout is not None
        for line in monitor.stdout:
            if line.startswith("The name ") and " is owned by " in line:
                self._watch.has_woken()
                self._lock_sleep()
            match parse_signal(line):
                case True:
                    self._watch.will_sleep()
                    self._unlock()
                case False:
                    self._watch.has_woken()
                    self._lock_sleep()
                case None:
                    pass
        monitor.kill()
        self._unlock()
        self._watch.about_to_sleep = None

    def _lock_sleep(self) -> None:
        if self._lock is None:
            self._lock = subprocess.Popen(
                ["/bin/sh", "-c", self._commands[1]],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        assert lock.stdin is not None
        with contextlib.suppress(OSError):
            lock.stdin.close()
        try:
            lock.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            lock.kill()
            lock.wait()
