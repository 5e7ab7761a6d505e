"""The examination: all checks beside each other, each with a time of its own, none able to take the others along."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from minions.executor.device import OLLAMA_URL, engine_versions
from minions.executor.doctor import trial
from minions.executor.doctor.findings import Finding, Judgement, unsure
from minions.executor.doctor.host_checks import judge_executor, judge_files, judge_owner_file, judge_service
from minions.executor.doctor.machine_checks import (
    Disk,
    judge_disk,
    judge_engines,
    judge_gpu,
    judge_memory,
    judge_ollama,
    judge_signals,
)
from minions.executor.doctor.readings import (
    Readings,
    read_access,
    read_facts,
    read_free,
    read_running,
    read_status,
)
from minions.executor.doctor.server_checks import judge_clock, judge_server, judge_token, judge_versions
from minions.executor.doctor.subject import Subject
from minions.executor.hardware import read_graphics_cards, read_usable_mb
from minions.executor.ollama_models import ollama_models
from minions.executor.owner_file import OwnerFileInvalid, read_owner_file
from minions.executor.probes.disk import read_used_bytes
from minions.executor.service_files import program_of
from minions.runtime.version import VERSION

_MEGABYTE = 1024 * 1024
_SECONDS = 20.0
_SERVER_SECONDS = 45.0  # a resolver without an answer takes half a minute, and no limit of a client counts there


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at. seconds: after so long it counts as unknown."""

    name: str
    look: Callable[[Subject, Readings], Judgement]
    seconds: float = _SECONDS


def examine(subject: Subject, checks: Sequence[Check] | None = None) -> Iterator[Finding]:
    """Every check's finding, in the order of the list, as soon as it is known."""
    readings = Readings(subject)
    looks = [_Look(check, subject, readings) for check in (CHECKS if checks is None else checks)]
    for look in looks:
        yield look.finding()


class _Look:
    """A check at work in a thread of its own, which is left behind when it does not come back."""

    def __init__(self, check: Check, subject: Subject, readings: Readings) -> None:
        self._check = check
        self._judgement = unsure(f"no answer within {check.seconds:.0f} s")
        self._deadline = time.monotonic() + check.seconds
        self._thread = threading.Thread(
            target=self._run, args=(subject, readings), name=f"check {check.name}", daemon=True
        )
        self._thread.start()

    def finding(self) -> Finding:
        self._thread.join(max(self._deadline - time.monotonic(), 0.0))
        judgement = self._judgement
        return Finding(self._check.name, judgement.verdict, judgement.says, judgement.way_out)

    def _run(self, subject: Subject, readings: Readings) -> None:
        try:
            self._judgement = self._check.look(subject, readings)
        except Exception as error:  # whatever a system's library does, the other checks must be told
            self._judgement = unsure(f"it could not be looked at ({type(error).__name__})")


def _server(subject: Subject, readings: Readings) -> Judgement:
    return judge_server(subject.server, readings.contact())


def _token(subject: Subject, readings: Readings) -> Judgement:
    contact = readings.contact()
    scope = readings.scope() if contact.fault is None and contact.status == 200 else None
    return judge_token(contact, scope, is_given=bool(subject.token))


def _clock(_: Subject, readings: Readings) -> Judgement:
    return judge_clock(readings.contact())


def _versions(_: Subject, readings: Readings) -> Judgement:
    return judge_versions(VERSION, readings.contact())


def _engines(subject: Subject, readings: Readings) -> Judgement:
    url = OLLAMA_URL if readings.ollama() is not None else None
    versions = engine_versions(subject.settings(url))
    return judge_engines(versions, subject.policy.kinds, is_asked=subject.owner_file.exists())


def _ollama(_: Subject, readings: Readings) -> Judgement:
    version = readings.ollama()
    return judge_ollama(OLLAMA_URL, version, ollama_models(OLLAMA_URL) if version is not None else [])


def _gpu(subject: Subject, _: Readings) -> Judgement:
    computed, problem = trial.compute(subject.device)
    cards = [card.name for card in read_graphics_cards()]
    return judge_gpu(computed, problem, cards=cards, system=subject.system)


def _model(subject: Subject, _: Readings) -> Judgement:
    return trial.embed_one_row(trial.smallest_embedding_model(subject.cache), subject.cache, subject.device)


def _memory(subject: Subject, _: Readings) -> Judgement:
    wanted_mb = subject.memory_mb if subject.memory_mb is not None else subject.policy.memory_mb
    return judge_memory(read_usable_mb(subject.device), wanted_mb, psutil.virtual_memory().total // _MEGABYTE)


def _disk(subject: Subject, _: Readings) -> Judgement:
    cache, state = (Disk(str(place), read_free(place)) for place in (subject.cache, subject.state))
    return judge_disk(subject.policy, cache, state, read_used_bytes([subject.state, subject.cache]))


def _files(subject: Subject, _: Readings) -> Judgement:
    return judge_files(read_access(subject))


def _service(subject: Subject, _: Readings) -> Judgement:
    if subject.service_file is None or not subject.is_installed:
        return judge_service(None, "", False, None)
    program = program_of(subject.service_file.read_text("utf-8"))
    return judge_service(subject.service_file, program, os.access(program, os.X_OK), read_running(subject))


def _executor(subject: Subject, readings: Readings) -> Judgement:
    status, problem = read_status(subject.state)
    needs_server = status is not None and bool(status.problem)
    return judge_executor(
        status,
        problem,
        installed=VERSION,
        is_service=subject.is_installed,
        is_reached=needs_server and readings.contact().fault is None,
        system=subject.system,
    )


def _owner_file(subject: Subject, _: Readings) -> Judgement:
    try:
        return judge_owner_file(subject.owner_file, read_owner_file(subject.owner_file), "")
    except FileNotFoundError:
        return judge_owner_file(subject.owner_file, None, "")
    except OwnerFileInvalid as error:
        return judge_owner_file(subject.owner_file, None, error.message)


def _signals(subject: Subject, _: Readings) -> Judgement:
    return judge_signals(subject.policy, read_facts(subject))


CHECKS: tuple[Check, ...] = (
    Check("server", _server, _SERVER_SECONDS),
    Check("token", _token, _SERVER_SECONDS + 20),
    Check("clock", _clock, _SERVER_SECONDS),
    Check("version", _versions, _SERVER_SECONDS),
    Check("service", _service, 35.0),
    Check("executor", _executor, _SERVER_SECONDS + 20),
    Check("owner", _owner_file),
    Check("signals", _signals),
    Check("files", _files),
    Check("disk", _disk, 30.0),
    Check("memory", _memory, 40.0),
    Check("engines", _engines),
    Check("ollama", _ollama),
    Check("gpu", _gpu, trial.COMPUTE_SECONDS + 10),
    Check("model", _model, trial.EMBED_SECONDS + 10),
)
"""All that is looked at, in the order in which people read it."""
