"""Programs: the names of what runs on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import psutil

_BUNDLE = re.compile(r"/([^/]+)\.app/Contents/MacOS/")


def parse_bundle(executable: str) -> str | None:
    """The name of a Mac's program as its owner knows it: `Final Cut Pro` of `/Applications/Final Cut Pro.app/…`."""
    found = _BUNDLE.search(executable)
    return found[1] if found else None


class ProgramsProbe:
    """Looks at new processes only: on a busy machine asking each of them every time would take tens of milliseconds."""

    def __init__(self, pids: Callable[[], Iterable[int]] = psutil.pids) -> None:
        """known: the names of each process at the last look."""
        self._pids = pids
        self._settled: frozenset[int] = frozenset()
        self.known: dict[int, frozenset[str]] = {}

    def read(self) -> frozenset[str]:
        """The names of all programs that run."""
        running = frozenset(self._pids())
        # What was new at the last look is asked once more: it may have been what starts a program, just before.
        before = frozenset(self.known)
        self.known = {pid: self.known[pid] if pid in self._settled else _names(pid) for pid in running}
        self._settled = running & before
        return frozenset[str]().union(*self.known.values())


def _names(pid: int) -> frozenset[str]:
    """A process that is another user's tells its name only."""
    try:
        process = psutil.Process(pid)
        found = {process.name()}
    except psutil.Error:
        return frozenset()
    try:
        bundle = parse_bundle(process.exe())
    except (psutil.Error, OSError):
        bundle = None
    return frozenset({*found, bundle} if bundle else found)
