"""Closed places: folders of this machine that nobody reads through a deployment, whoever may name files of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from minions.domain.errors import AccessDenied

_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")  # no files; among them is what the server was started with, tokens too


class ClosedPlaces:
    """Folders whose files are not for anybody, by whatever way a path leads there."""

    def __init__(self, closed: Iterable[Path], but: Path | None = None) -> None:
        """closed: besides the system's own. but: a folder in one of them that is open all the same."""
        self._closed = tuple(Path(os.path.realpath(each)) for each in (*_OF_THE_SYSTEM, *closed))
        self._but = None if but is None else Path(os.path.realpath(but))

    def refuse(self, path: Path) -> None:
        """Raises AccessDenied for a path that leads into one, by links as well. Blocks."""
        real = Path(os.path.realpath(path))
        if self._but is not None and real.is_relative_to(self._but):
            return
        if any(real.is_relative_to(each) for each in self._closed):
            raise AccessDenied(
                f"{path} lies where this deployment or the system keeps its own, which no task may name; "
                "copy the file elsewhere, or upload it",
                hint="",
            )
