"""Speaks to the system's service manager: launchd through launchctl, systemd through systemctl.

Neither a Mac nor a systemd user session can be had where the tests run: there, a program that writes down how it was
called stands on the PATH in place of launchctl or systemctl.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from minions.domain.errors import MinionsError, NotFound
from minions.executor.owner_file import write
from minions.executor.service import service_file
from minions.executor.service_files import LABEL, UNIT, Service, launch_agent, systemd_unit

_CALL_SECONDS = 30.0
_END_SECONDS = 20.0  # what launchd takes to end a service: its ExitTimeOut, and some more
_LOOK_SECONDS = 0.2


class ServiceRefused(MinionsError):
    """The system's service manager refused."""

    code = "service_refused"


@dataclass(frozen=True, slots=True)
class Running:
    """What the service manager says. last_exit: how it ended last, in its words; empty when it does not say."""

    is_running: bool
    last_exit: str = ""


class Manager(Protocol):
    """The service manager of this system."""

    file: Path
    """Where it looks for the service's description."""

    def put(self, service: Service) -> None:
        """Describe it and start it, at once and from every login on; one that runs already is started anew.

        Raises ServiceRefused, with what the manager says; then the description is what it was before.
        """
        ...

    def remove(self) -> None:
        """Stop it and forget it. Raises ServiceRefused."""
        ...

    def look(self) -> Running | None:
        """How it stands; None when that cannot be told."""
        ...


def service_manager(system: str, home: Path) -> Manager:
    """Raises NotFound on a system that has neither."""
    file = service_file(system, home)
    if file is None:
        raise NotFound(
            f"on {system}, an executor cannot be installed as a service",
            hint="`minions executor` runs one in the foreground.",
        )
    return Launchd(file) if system == "darwin" else Systemd(file)


class Launchd:
    """launchd. The agent lives in the session of the screen; where nobody is logged in, in the user's background."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def put(self, service: Service) -> None:
        """See Manager.put."""
        domain = self._domain()
        text = launch_agent(service, "Aqua" if domain.startswith("gui/") else "Background")
        with _exchanged(self.file, text):
            self._unload()
            _call("launchctl", "enable", f"{domain}/{LABEL}")
            _call("launchctl", "bootstrap", domain, str(self.file))

    def remove(self) -> None:
        """See Manager.remove."""
        self._unload()
        self.file.unlink(missing_ok=True)

    def look(self) -> Running | None:
        """See Manager.look."""
        for domain in _domains():
            asked = _ask("launchctl", "print", f"{domain}/{LABEL}")
            if asked is not None and asked.returncode == 0:
                return parse_launchctl(asked.stdout)
        return Running(False)

    def _domain(self) -> str:
        screen, background = _domains()
        return screen if _call("launchctl", "print", screen, refusing=False).returncode == 0 else background

    def _unload(self) -> None:
        """launchctl comes back before the service has ended, and refuses a new one until then."""
        for domain in _domains():
            target = f"{domain}/{LABEL}"
            if _call("launchctl", "print", target, refusing=False).returncode:
                continue
            _call("launchctl", "bootout", target, refusing=False)
            deadline = time.monotonic() + _END_SECONDS
            while _call("launchctl", "print", target, refusing=False).returncode == 0:
                if time.monotonic() > deadline:
                    raise ServiceRefused(
                        f"launchctl did not end {target} within {_END_SECONDS:.0f} s",
                        hint=f"`launchctl bootout {target}` may say why.",
                    )
                time.sleep(_LOOK_SECONDS)


class Systemd:
    """The user's own systemd."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def put(self, service: Service) -> None:
        """See Manager.put."""
        was_there = self.file.exists()
        with _exchanged(self.file, systemd_unit(service)):
            self._call("daemon-reload")
            self._call("enable", "--now", UNIT)
            if was_there:
                self._call("restart", UNIT)

    def remove(self) -> None:
        """See Manager.remove."""
        self._call("disable", "--now", UNIT)
        self.file.unlink(missing_ok=True)
        self._call("daemon-reload")

    def look(self) -> Running | None:
        """See Manager.look."""
        asked = _ask("systemctl", "--user", "show", UNIT, "--property=ActiveState,Result,ExecMainStatus")
        return parse_systemctl(asked.stdout) if asked is not None and asked.returncode == 0 else None

    def _call(self, *words: str) -> None:
        _call("systemctl", "--user", *words)


def parse_launchctl(text: str) -> Running:
    """`launchctl print DOMAIN/LABEL`."""
    state = re.search(r"^\tstate = (.+)$", text, re.MULTILINE)
    last_exit = re.search(r"^\tlast exit code = (.+)$", text, re.MULTILINE)
    said = last_exit[1].strip() if last_exit else ""
    return Running(state is not None and state[1].strip() == "running", "" if said.startswith("(never") else said)


def parse_systemctl(text: str) -> Running | None:
    """`systemctl show --property=ActiveState,Result,ExecMainStatus`."""
    found = {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}
    if "ActiveState" not in found:
        return None
    failed = found.get("Result", "success") != "success"
    return Running(found["ActiveState"] == "active", found.get("ExecMainStatus", "") if failed else "")


@contextmanager
def _exchanged(file: Path, text: str) -> Generator[None]:
    """Put the text into the file; when what follows fails, what was there before comes back."""
    before = file.read_text("utf-8") if file.exists() else None
    write(file, text)
    try:
        yield
    except BaseException:
        if before is None:
            file.unlink(missing_ok=True)
        else:
            write(file, before)
        raise


def _domains() -> tuple[str, str]:
    return f"gui/{os.getuid()}", f"user/{os.getuid()}"


def _call(program: str, *words: str, refusing: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it. Raises NotFound when it is not there, ServiceRefused when it fails, unless refusing is False."""
    if shutil.which(program) is None:
        raise NotFound(
            f"{program} is not on the PATH: this machine's services cannot be reached",
            hint="`minions executor` runs an executor in the foreground.",
        )
    said = " ".join((program, *words))
    asked = _ask(program, *words)
    if asked is None:
        raise ServiceRefused(f"`{said}` did not come back within {_CALL_SECONDS:.0f} s")
    if asked.returncode and refusing:
        what = " ".join(asked.stderr.split()) or f"it ended with exit code {asked.returncode}"
        raise ServiceRefused(f"`{said}` was refused: {what}", hint=_advice(what))
    return asked


def _ask(program: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            [program, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_CALL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _advice(refusal: str) -> str:
    if "bus" in refusal.lower():
        return "Log in as this user itself (not through su or sudo), or set XDG_RUNTIME_DIR=/run/user/$(id -u)."
    return "`minions executor` runs an executor in the foreground."
