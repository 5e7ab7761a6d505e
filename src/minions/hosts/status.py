"""How a run goes, as the coordinator writes it down and whoever watches reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from minions.domain.errors import FieldError, MinionsError, ValidationFailed

Phase = Literal["starting", "running", "stopping", "ended"]
MOST_TOLD = 200


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host. per_minute: jobs done in the last minutes; None while that is not measured."""

    name: str
    slots: int
    state: str
    reason: str = ""
    running: int = 0
    done: int = 0
    per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that was given up. message: the end of what it printed."""

    index: int
    output: str
    host: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Status:
    """The whole of it.

    run: tells this coordinator's status from that of an earlier one. done: all jobs that are done and in their places.
    skipped: those of them that were so before. returned: were done once, and are run again, since their outputs are not
    what they were. failures: the first of them. failed_by: how many there are, by reason. held_back: jobs that wait
    because they may still run elsewhere, each time with what ends that. notes: what people should know, oldest first,
    each with its number. exit_code: once it has ended. error: why it could not go on.
    """

    run: str
    phase: Phase = "starting"
    activity: str = ""
    commit: str = ""
    patch_sha256: str | None = None
    jobs: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    running: int = 0
    returned: int = 0
    nondeterministic: int = 0
    remaining_seconds: tuple[int, int] | None = None
    seconds: float = 0.0
    hosts: tuple[HostStatus, ...] = ()
    failures: tuple[Failure, ...] = ()
    failed_by: tuple[tuple[str, int], ...] = ()
    held_back: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[int, str], ...] = ()
    exit_code: int | None = None
    error: Mapping[str, Any] | None = field(default=None)

    @property
    def left(self) -> int:
        return self.jobs - self.done - self.failed


def write_status(place: Path, status: Status) -> None:
    """For people who watch now: nothing of it has to survive a power cut."""
    temporary = place.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(status)), "utf-8")
    os.replace(temporary, place)


def read_status(place: Path) -> Status | None:
    """None when there is none, or one of another version."""
    try:
        found = cast("dict[str, Any]", json.loads(place.read_text("utf-8")))
        found["hosts"] = tuple(HostStatus(**each) for each in found["hosts"])
        found["failures"] = tuple(Failure(**each) for each in found["failures"])
        found["failed_by"] = tuple((reason, many) for reason, many in found["failed_by"])
        found["held_back"] = tuple((what, end) for what, end in found["held_back"])
        found["notes"] = tuple((number, text) for number, text in found["notes"])
        left = found["remaining_seconds"]
        found["remaining_seconds"] = tuple(left) if left else None
        return Status(**found)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def error_document(error: MinionsError) -> dict[str, Any]:
    """An error, so that another process can tell it."""
    errors = [asdict(each) for each in error.errors] if isinstance(error, ValidationFailed) else []
    return {"code": error.code, "message": error.message, "advice": error.advice, "errors": errors}


def error_of(document: Mapping[str, Any]) -> MinionsError:
    """The error that was told."""
    if document["errors"]:
        refused = ValidationFailed([FieldError(**each) for each in document["errors"]])
        refused.advice = document["advice"]
        return refused
    return MinionsError(document["message"], hint=document["advice"])
