"""The directory `.minions` of a project: the last run, what was delivered, how hosts are to be, how it goes.

Beside the files named here the embedded deployment keeps its own there. git ignores all of it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from minions.domain.errors import Conflict, MinionsError, NotFound
from minions.domain.jobs import Job, job_line
from minions.formats.durable import replace_durably
from minions.hosts.job_list import JobList
from minions.runtime.locks import hold, lock_holder

NAME = ".minions"
_LOW_DISK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that all jobs read. in_commit: it need not be sent."""

    path: str
    sha256: str
    size_bytes: int
    in_commit: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be run, pinned. jobs: with their identities, in the order of the list. selected: places in it."""

    commit: str
    patch_sha256: str | None
    project_key: str
    inputs: tuple[InputFile, ...]
    jobs: Sequence[tuple[Job, str]] = field(repr=False)
    command: tuple[str, ...] = ()
    setup: tuple[str, ...] | None = None
    timeout_seconds: float | None = None
    retries: int = 0
    idempotent: bool = False
    second_start: bool = False
    selected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HostWish:
    """How a host is to be, as somebody said on the command line. slots None: as minions.toml says."""

    slots: int | None = None
    paused: bool = False
    draining: bool = False


class RunDirectory:
    """Small files, each whole or not at all. Its methods block for milliseconds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / NAME

    def make(self) -> None:
        """Make it, if need be, so that git does not see it. Raises MinionsError."""
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", "utf-8")
        except OSError as error:
            raise MinionsError(f"{self.path} cannot be used: {(error.strerror or '').lower()}") from None

    @property
    def status(self) -> Path:
        return self.path / "status.json"

    @property
    def is_full(self) -> bool:
        """Whether its disk has no room left, so that not even the status can be written."""
        return shutil.disk_usage(self.path).free < _LOW_DISK_BYTES

    @property
    def coordinator_log(self) -> Path:
        return self.path / "logs" / "coordinator.log"

    @property
    def coordinator_lock(self) -> Path:
        return self.path / "coordinator.lock"

    def patch(self, sha256: str) -> Path:
        return self.path / "patches" / f"{sha256}.patch"

    def deployment_name(self) -> str:
        """The name under which hosts keep what belongs to this project's deployment; made once."""
        place = self.path / "deployment"
        if not place.exists():
            _write(place, secrets.token_hex(8).encode())
        return place.read_text("ascii").strip()

    def coordinator(self) -> int | None:
        """The process of the coordinator that runs now."""
        return lock_holder(self.coordinator_lock)

    def write_run(self, run: Run) -> None:
        """Remember the run: what `ledger`, `explain`, `verify` and `merge` speak of."""
        lines = b"".join(job_line(job, identity) for job, identity in run.jobs)
        _write(self.path / "jobs.jsonl", lines)
        about = asdict(replace(run, jobs=()))
        del about["jobs"]
        _write(self.path / "run.json", json.dumps(about).encode())

    def read_run(self) -> Run:
        """Raises NotFound when nothing was run yet."""
        try:
            about = cast("dict[str, Any]", json.loads((self.path / "run.json").read_bytes()))
            lines = (self.path / "jobs.jsonl").read_bytes()
        except FileNotFoundError:
            raise NotFound("nothing was run in this project yet", hint="`minions run` starts a run.") from None
        except ValueError:
            raise MinionsError(f"{self.path}/run.json is damaged", hint="`minions run` writes it anew.") from None
        inputs = tuple(InputFile(**each) for each in about.pop("inputs"))
        tuples = ("command", "selected")
        about |= {name: tuple(about[name]) for name in tuples}
        about["setup"] = None if about["setup"] is None else tuple(about["setup"])
        return Run(**about, inputs=inputs, jobs=JobList(f"{self.path}/jobs.jsonl", lines))

    def outputs(self) -> set[str]:
        """The outputs of this run and of earlier ones: what lies there was made by a run."""
        try:
            return set((self.path / "outputs").read_text("utf-8").splitlines())
        except FileNotFoundError:
            return set()

    def note_outputs(self, outputs: set[str]) -> None:
        """Remember what runs write."""
        before = self.outputs()
        if outputs - before:
            _write(self.path / "outputs", "".join(f"{each}\n" for each in sorted(outputs | before)).encode())

    def wishes(self) -> dict[str, HostWish]:
        """How hosts are to be, by name; those that nobody spoke of are absent."""
        try:
            found: Any = json.loads((self.path / "hosts.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return {name: HostWish(**wish) for name, wish in cast("dict[str, dict[str, Any]]", found).items()}

    def wish(self, host: str, wish: HostWish) -> None:
        """Say how a host is to be; the coordinator reads it within a second."""
        told = {name: asdict(each) for name, each in (self.wishes() | {host: wish}).items()}
        _write(self.path / "hosts.json", json.dumps(told).encode())

    def hosts_used(self) -> set[str]:
        """Hosts on which an executor was started and not seen to end."""
        try:
            return set(cast("list[str]", json.loads((self.path / "hosts-used.json").read_bytes())))
        except (FileNotFoundError, ValueError):
            return set()

    def note_host(self, host: str, *, used: bool) -> None:
        """Remember that an executor was started on a host, or ended there."""
        before = self.hosts_used()
        after = before | {host} if used else before - {host}
        if after != before:
            _write(self.path / "hosts-used.json", json.dumps(sorted(after)).encode())

    def uploads(self) -> dict[str, str]:
        """Inputs that the deployment has already: uploads by SHA-256."""
        try:
            return cast("dict[str, str]", json.loads((self.path / "uploads.json").read_bytes()))
        except (FileNotFoundError, ValueError):
            return {}

    def write_uploads(self, uploads: Mapping[str, str]) -> None:
        _write(self.path / "uploads.json", json.dumps(dict(uploads)).encode())

    def note_merge(self, record: Mapping[str, object]) -> None:
        """Remember a merge of outputs that were verified."""
        with (self.path / "merges.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(record)) + "\n")

    def delivered(self) -> set[tuple[str, str]]:
        """(job, hash) of outputs that were put into their places: what is wrong there now was done to them later."""
        try:
            lines = (self.path / "delivered").read_text("ascii").splitlines()
        except FileNotFoundError:
            return set()
        return {(line[:64], line[65:129]) for line in lines if len(line) == 129}

    def note_delivered(self, outputs: Iterable[tuple[str, str]]) -> None:
        """Neither flushed nor insisted on, on a full disk: what is forgotten is fetched again, and not run again."""
        with suppress(OSError), (self.path / "delivered").open("a", encoding="ascii") as file:
            file.write("".join(f"{identity} {sha256}\n" for identity, sha256 in outputs))


def watching(directory: RunDirectory) -> IO[str]:
    """The right to be the one that shows the run in this project. Raises Conflict."""
    place = directory.path / "watching.lock"
    held = hold(place)
    if held is None:
        raise Conflict(
            f"`minions run` already runs in this project (process {lock_holder(place) or 'unknown'})",
            hint="Watch it there, or end it with `minions stop`.",
        )
    return held


def name_of(jobs: Sequence[tuple[Job, str]], reference: str) -> int:
    """The place of a job that is named by its number, the beginning of its identity, or its output. Raises NotFound."""
    if reference.isdigit() and int(reference) < len(jobs):
        return int(reference)
    places = jobs.places_like(reference) if isinstance(jobs, JobList) else range(len(jobs))
    found = [
        place
        for place, (job, identity) in ((place, jobs[place]) for place in places)
        if job.output == reference or (len(reference) >= 4 and identity.startswith(reference))
    ]
    if len(found) == 1:
        return found[0]
    what = "no job" if not found else f"{len(found)} jobs, not one,"
    raise NotFound(
        f"{reference!r} names {what} of the last run",
        hint=f"Give a number from 0 to {len(jobs) - 1}, the beginning of an id, or an output; see `minions ledger`.",
    )


def _write(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            replace_durably(file, temporary, target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        why = (error.strerror or "").lower()
        raise MinionsError(
            f"{target} cannot be written: {why}", hint="Mend that; `minions run` goes on then."
        ) from None
