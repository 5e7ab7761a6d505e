"""What the checks read: each once, by whichever check asks first."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import httpx

from minions.domain.errors import MinionsError
from minions.domain.facts import Facts
from minions.domain.owner_policy import OwnerPolicy
from minions.executor.control.client import ControlClient
from minions.executor.control.messages import Status
from minions.executor.device import OLLAMA_URL
from minions.executor.doctor.contact import Contact, Scope, read_contact, read_scope
from minions.executor.doctor.host_checks import Access
from minions.executor.doctor.subject import Subject
from minions.executor.places import CONTROL_FILE
from minions.executor.probes.disk import read_free_bytes
from minions.executor.probes.reader import FactReader
from minions.executor.service_manager import Running, service_manager

Value = TypeVar("Value")
_OLLAMA_SECONDS = 2.0
_FACTS_SECONDS = 6.0  # the processor takes two looks, five seconds apart
_LOOK_SECONDS = 0.5
_EVERY_SIGNAL = replace(OwnerPolicy(), excluding_programs=("any",), most_other_cpu_percent=100.0)


class Once(Generic[Value]):
    """Reads when it is first asked; who asks meanwhile waits for that."""

    def __init__(self, read: Callable[[], Value]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._found: list[Value] = []

    def __call__(self) -> Value:
        with self._lock:
            if not self._found:
                self._found.append(self._read())
            return self._found[0]


class Readings:
    """Readings that several checks share."""

    def __init__(self, subject: Subject) -> None:
        self.contact: Once[Contact] = Once(lambda: read_contact(subject.server, subject.token, subject.system))
        self.scope: Once[Scope] = Once(lambda: read_scope(subject.server, subject.token))
        self.ollama: Once[str | None] = Once(read_ollama_version)


def read_ollama_version() -> str | None:
    """The version of this machine's Ollama; None when it does not answer."""
    try:
        answer = httpx.get(f"{OLLAMA_URL}/api/version", timeout=_OLLAMA_SECONDS, trust_env=False)
        return str(answer.json()["version"]) if answer.is_success else None
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


def read_status(state: Path) -> tuple[Status | None, str]:
    """What the executor that runs here says; else why it does not."""
    try:
        return ControlClient(state).status(), ""
    except MinionsError as error:
        return None, error.message


def read_running(subject: Subject) -> Running | None:
    """How the service stands; None when the service manager cannot be asked."""
    try:
        return service_manager(subject.system, Path.home()).look()
    except MinionsError:
        return None


def read_access(subject: Subject) -> list[Access]:
    """The files and directories that matter, and who may do what with them."""
    found = [_access(subject.state), _access(subject.cache), _access(subject.state / CONTROL_FILE, is_secret=True)]
    found = [each for each in found if each.mode is not None]  # they are made when an executor starts
    return found + ([_access(subject.token_file, is_secret=True)] if subject.token_file is not None else [])


def read_free(place: Path) -> int | None:
    try:
        return read_free_bytes(place)
    except OSError:
        return None


def read_facts(subject: Subject) -> Facts:
    """Every signal, whether the owner's file asks for it or not. Some take two looks, or longer than one."""
    reader = FactReader(subject.cache, [subject.state, subject.cache])
    deadline = time.monotonic() + _FACTS_SECONDS
    while True:
        facts = reader.read(_EVERY_SIGNAL, is_working=False, is_loaded=False)
        signals = (facts.idle_seconds, facts.thermal, facts.pressure, facts.metered, facts.other_cpu_percent)
        if None not in signals or time.monotonic() > deadline:
            return facts
        time.sleep(_LOOK_SECONDS)


def _access(path: Path, *, is_secret: bool = False) -> Access:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Access(path, None, is_secret=is_secret)
    except OSError:
        return Access(path, 0, is_usable=False, is_secret=is_secret)
    needed = os.R_OK | os.W_OK | os.X_OK if path.is_dir() else os.R_OK
    return Access(path, mode, os.access(path, needed), is_secret)
