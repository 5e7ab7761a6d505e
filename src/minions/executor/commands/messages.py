"""What is said to the server, as JSON values: the shapes of `wire/executor.py`, which is not here on a host. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REASON_CHARACTERS = 500
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """One registration."""

    executor: str
    session: str

    def fields(self) -> Json:
        return {"executor": self.executor, "session": self.session}


@dataclass(frozen=True, slots=True)
class Assigned:
    """A job that now belongs to this executor. line: where its line lies in the file of jobs. output_most_bytes: what
    the object store takes; None: anything."""

    acquirement: str
    task: str
    subtask_id: int
    attempt: int
    commit: str
    patch_sha256: str | None
    project_key: str
    setup_sha256: str | None
    timeout_seconds: float | None
    inputs: Sequence[Mapping[str, Any]]
    object: str
    object_bytes: int
    object_link: str
    line: tuple[int, int]
    output_link: str
    links_expire_seconds: float
    output_most_bytes: int | None = None


def parse_assignment(found: Mapping[str, Any]) -> Assigned:
    """Read an assignment. Raises KeyError, TypeError for another shape."""
    parameters, piece = found["parameters"], found["input"]
    return Assigned(
        acquirement=found["acquirement"],
        task=found["task"],
        subtask_id=found["subtask_id"],
        attempt=found["attempt"],
        commit=parameters["commit"],
        patch_sha256=parameters.get("patch_sha256"),
        project_key=parameters["project_key"],
        setup_sha256=parameters.get("setup_sha256"),
        timeout_seconds=parameters.get("timeout_seconds"),
        inputs=parameters.get("inputs", ()),
        object=piece["object"],
        object_bytes=piece["size_bytes"],
        object_link=piece["link"],
        line=(piece["start"], piece["end"] if piece["end"] is not None else piece["size_bytes"]),
        output_link=found["output_link"],
        links_expire_seconds=found["links_expire_seconds"],
        output_most_bytes=found.get("output_most_bytes"),
    )


def register(
    instance: str, name: str, owner: str, version: str, device: Mapping[str, Any], memory_mb: int | None
) -> Json:
    """An executor starts."""
    return {
        "instance": instance,
        "name": name,
        "owner": owner,
        "version": version[:40],
        "device": dict(device),
        "kinds": ["command"],
        "engines": ["command"],
        "memory_mb": memory_mb,
    }


def acquire(
    session: Session, holds: Collection[str], exclude: Collection[str], wait_seconds: float, heard_until: str | None
) -> Json:
    """Ask for one job."""
    said = {**session.fields(), "holds": list(holds), "exclude": list(exclude), "wait_seconds": wait_seconds}
    return _heard(said, heard_until)


def heartbeat(
    session: Session,
    state: str,
    reason: str,
    holds: Collection[str],
    leaves: Mapping[str, str],
    device: Mapping[str, Any],
    sample: Mapping[str, float],
    heard_until: str | None,
) -> Json:
    """How this executor is."""
    said = {
        **session.fields(),
        "state": state,
        "reason": cut(reason),
        "holds": list(holds),
        "leaves": {task: cut(why) for task, why in leaves.items()},
        "device": dict(device),
        "sample": dict(sample),
    }
    return _heard(said, heard_until)


def progress(session: Session, holds: Collection[str], heard_until: str | None) -> Json:
    """A sign of life."""
    return _heard({**session.fields(), "rows": dict.fromkeys(holds, 0)}, heard_until)


def _heard(said: Json, heard_until: str | None) -> Json:
    """Only with a server that has told of it: an older one refuses a field that it does not know."""
    return said if heard_until is None else {**said, "heard_until": heard_until}


def commit(assigned: Assigned, job: Mapping[str, Any], sha256: str, size_bytes: int, version: str) -> Json:
    """The output of a job is in the object store. Who speaks is added when it is sent."""
    return {
        "acquirement": assigned.acquirement,
        "task": assigned.task,
        "subtask_id": assigned.subtask_id,
        "part_start": assigned.line[0],
        "part_end": assigned.line[1],
        "final": True,
        "rows": 1,
        "sha256": sha256,
        "size_bytes": size_bytes,
        "seconds": job["seconds"],
        "engine_version": version[:80],
        "job": dict(job),
    }


def fail(session: Session, acquirement: str, code: str, message: str, job: Mapping[str, Any] | None) -> Json:
    """A job failed. An attempt."""
    said = {**session.fields(), "acquirement": acquirement, "code": code, "message": tail(message)}
    return said if job is None else {**said, "job": dict(job)}


def release(session: Session, acquirement: str, reason: str) -> Json:
    """Give a job back. No attempt."""
    return {**session.fields(), "acquirement": acquirement, "reason": cut(reason)}


def links(session: Session, acquirement: str, part_start: int) -> Json:
    """Ask for links: to write the output and the log, and to read inputs."""
    return {**session.fields(), "acquirement": acquirement, "part_start": part_start, "command": True}


def goodbye(session: Session, reason: str) -> Json:
    """The executor ends."""
    return {**session.fields(), "reason": cut(reason)}


def cut(text: str) -> str:
    """As much of a reason as is told."""
    return _printable(text)[:REASON_CHARACTERS]


def tail(text: str) -> str:
    """The first line, which says what happened, and of the rest the end, which says why."""
    text = _printable(text).strip()
    if len(text) <= REASON_CHARACTERS:
        return text
    first, _, rest = text.partition("\n")
    first = first[: REASON_CHARACTERS // 2]
    room = REASON_CHARACTERS - len(first) - 2
    return f"{first}\n…{rest[-room:]}"


def _printable(text: str) -> str:
    """A text that the database stores: no zero bytes, no halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
