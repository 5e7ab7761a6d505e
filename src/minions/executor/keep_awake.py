"""Keeping the machine awake: by the system's own tool, only while it works, and no longer than this process lives."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress

log = logging.getLogger(__name__)


def awake_command(system: str, pid: int) -> list[str] | None:
    """What keeps a system awake until the process `pid` ends; None where nothing does."""
    if system == "darwin":
        return ["/usr/bin/caffeinate", "-i", "-w", str(pid)]  # -i: the display may sleep
    inhibit, tail = shutil.which("systemd-inhibit"), shutil.which("tail")
    if system != "linux" or inhibit is None or tail is None:
        return None
    why = ["--what=sleep:idle", "--who=Minions", "--why=A lent machine is working", "--mode=block"]
    return [inhibit, *why, tail, f"--pid={pid}", "-f", "/dev/null"]


class KeepAwake:
    """Holds the machine awake from `hold` to `let_sleep`."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = command if command is not None else awake_command(sys.platform, os.getpid())
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_holding(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def set(self, awake: bool) -> None:
        """Hold it awake, or do not."""
        if awake:
            await self._hold()
        else:
            await self.let_sleep()

    async def _hold(self) -> None:
        if self._command is None or self.is_holding:
            return
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            log.warning("this machine cannot be kept awake: %s", (error.strerror or "").lower())
            self._command = None
            return
        with suppress(TimeoutError):  # one that ends at once is not allowed to, and would be started twice a second
            async with asyncio.timeout(0.2):
                code = await self._process.wait()
                log.warning("this machine cannot be kept awake: %s ended with code %d", self._command[0], code)
                self._command = None

    async def let_sleep(self) -> None:
        """End the hold at once."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
