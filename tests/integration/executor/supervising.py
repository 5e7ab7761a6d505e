"""Jobs for the tests of the supervisor: how they are told apart, how they say that they are there, and what is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from minions.executor.supervisor.command import Command

PATH = "/usr/local/bin:/usr/bin:/bin"


class Scene:
    """A place for jobs. Everything that a test starts through `sleeper` has `mark` in its arguments."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.directory = place / "jobs"
        self.mark = f"1000.{secrets.randbelow(10**12):012}"
        self.doorbell = place / "doorbell"
        self.silence = place / self.mark
        os.mkfifo(self.doorbell)
        os.mkfifo(self.silence)
        self._ear = os.open(self.doorbell, os.O_RDWR)
        self._kept_open = os.open(self.silence, os.O_RDWR)

    @property
    def sleeper(self) -> str:
        """A piece of shell that says it is there, and stays; for the inside of single quotes.

        As the same program: while it became another, nobody could read its arguments and its environment.
        """
        return f"echo up >{self.doorbell}; read -r _ <{self.silence}"

    @property
    def rings(self) -> str:
        """A piece of shell that says it is there."""
        return f"echo up >{self.doorbell}"

    def command(self, *argv: str | bytes, **fields: Any) -> Command:
        """A command with little around it."""
        environment = {"PATH": PATH, "LC_ALL": "C.UTF-8"}
        plain = Command("job", argv, self.place, self.place / "out", self.place / "err", environment)
        return replace(plain, **fields)

    def shell(self, script: str, **fields: Any) -> Command:
        """A command of the shell."""
        return self.command("sh", "-c", script, **fields)

    async def hears(self, times: int = 1) -> None:
        """Wait until so many have said that they are there."""
        await asyncio.to_thread(self._listen, times)

    def _listen(self, times: int) -> None:
        for _ in range(times):
            heard = b""
            while heard != b"up\n":
                heard += os.read(self._ear, 1)

    def alive(self) -> list[int]:
        """What jobs have running."""
        return [process.pid for process in self._with(self.mark)]

    def launchers(self) -> list[int]:
        """The launchers of jobs here."""
        return [process.pid for process in self._with("supervisor.launcher", str(self.directory))]

    def end(self) -> None:
        """End what a failed test has left."""
        for process in [*self._with(self.mark), *self._with("supervisor.launcher", str(self.directory))]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        os.close(self._ear)
        os.close(self._kept_open)

    def _with(self, *words: str) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                arguments = " ".join(process.cmdline())
                if all(word in arguments for word in words) and process.status() != psutil.STATUS_ZOMBIE:
                    yield process
