"""Standing: what an executor of commands tells the people of its machine, in a file beside the one that controls it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from minions.executor.commands.control import replace_text
from minions.runtime.locks import lock_holder

STANDING_FILE = "commands.json"
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """state: idle, busy, paused or stopping; since: in seconds since 1970. running: jobs that take a slot; undelivered:
    finished ones that the server has not heard of. refusal: why nothing new is begun. until: the pause ends then."""

    name: str
    server: str
    version: str
    pid: int
    slots: int
    state: str = "idle"
    since: float = 0.0
    running: int = 0
    undelivered: int = 0
    refusal: str = ""
    until: float | None = None

    @property
    def sentence(self) -> str:
        """What it is doing and why, but for the time."""
        jobs = f"{self.running} job{'' if self.running == 1 else 's'}"
        if self.refusal:
            goes_on = f"; {jobs} run to their ends" if self.running > 1 else "; a job runs to its end"
            return f"{self.state}: {self.refusal}{goes_on if self.running else ''}"
        if self.running:
            return f"busy: runs {jobs}, {self.slots} at once"
        return f"idle: waits for jobs, {self.slots} at once"


@contextlib.asynccontextmanager
async def told(state: Path, look: Callable[[], Standing]) -> AsyncGenerator[None]:
    """Keep the file as it is, for as long as the block takes."""

    async def keep() -> None:
        last: Standing | None = None
        while True:
            now = look()
            now = replace(now, since=last.since if last is not None and last.state == now.state else time.time())
            if now != last:
                with contextlib.suppress(OSError):  # a full disk must not end the work
                    await asyncio.to_thread(replace_text, state / STANDING_FILE, json.dumps(asdict(now)))
                    last = now
            await asyncio.sleep(_LOOK_SECONDS)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        (state / STANDING_FILE).unlink(missing_ok=True)


def read_standing(state: Path) -> Standing | None:
    """That of the executor of commands which runs with this state directory; None when none does."""
    try:
        found: Any = json.loads((state / STANDING_FILE).read_text("utf-8"))
        standing = Standing(**found)
        os.kill(standing.pid, 0)
        return standing if lock_holder(state / "lock") is not None else None
    except (OSError, ValueError, TypeError):
        return None
