"""What a coordinator tells of itself: its status, written down again and again, and its log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from minions.hosts.status import MOST_TOLD, Status, write_status

log = logging.getLogger(__name__)

_WRITE_SECONDS = 0.5


class Telling:
    """The status of one run. measured: what changes all the time, put on top whenever it is written."""

    def __init__(self, place: Path, run: str) -> None:
        self._place = place
        self._status = Status(run)
        self._began = time.monotonic()
        self.measured: Callable[[Status], Status] = lambda status: status

    def say(self, text: str) -> None:
        """Something that people should know."""
        log.info("%s", text)
        notes = self._status.notes
        number = notes[-1][0] + 1 if notes else 0
        self.change(notes=(*notes, (number, text))[-MOST_TOLD:])

    def act(self, activity: str) -> None:
        """What is being done, while no job runs."""
        self.change(activity=activity)

    def change(self, **fields: Any) -> None:
        self._status = replace(self._status, **fields)

    @asynccontextmanager
    async def written(self) -> AsyncGenerator[None]:
        """Write it down until the end of the block, and once more then."""
        writing = asyncio.create_task(self._write_again_and_again())
        try:
            yield
        finally:
            writing.cancel()
            self._write()

    async def _write_again_and_again(self) -> None:
        while True:
            self._write()
            await asyncio.sleep(_WRITE_SECONDS)

    def _write(self) -> None:
        status = self.measured(replace(self._status, seconds=time.monotonic() - self._began))
        with suppress(OSError):  # a full disk must not end the run
            write_status(self._place, status)
