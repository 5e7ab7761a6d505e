"""The project's minions.toml: what `[run]` asks for and which `[hosts.NAME]` there are, each error with its line."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.jobs import MOST_JOBS, Job, JobsFile, expand
from minions.domain.output_paths import path_problem, taken_errors
from minions.hosts.durations import seconds_of
from minions.hosts.inventory import Host, parse_hosts, place_of
from minions.runtime.settings_files import KEYS

FILE = "minions.toml"
_OF_EXPANSION = ("command", "output", "environment", "range", "list", "matrix", "jobs")
_TABLES = ("run", "hosts", *KEYS)  # it is a file of the client's settings, too
_MOST_RETRIES = 100
_MOST_INPUTS = 1000
_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class RunTable:
    """`[run]`. jobs: all of them, in order. output_directory: where all outputs lie; "" for the project itself.

    inputs: paths in the project. merge: the command over the outputs. setup: what makes a worktree ready.
    jobs_file: the file that lists the jobs.
    """

    jobs: tuple[Job, ...]
    command: tuple[str, ...]
    output_directory: str
    inputs: tuple[str, ...] = ()
    merge: tuple[str, ...] | None = None
    setup: tuple[str, ...] | None = None
    timeout_seconds: float | None = None
    retries: int = 0
    idempotent: bool = False
    second_start: bool = False
    jobs_file: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """What minions.toml says of runs."""

    run: RunTable
    hosts: tuple[Host, ...]


def find_root(start: Path) -> Path:
    """The git repository around a directory. Raises NotFound."""
    for place in (start, *start.parents):
        if (place / ".git").exists():
            return place
    raise NotFound(
        f"{start} is in no git repository", hint="`git init` it, and commit what shall be run: a run is of one commit."
    )


def read_project(root: Path) -> ProjectFile:
    """Read minions.toml of a project, and the file of jobs that it may name. Raises ValidationFailed, NotFound."""
    document, text = _document(root)
    hosts, errors = parse_hosts(document.get("hosts"), text)
    errors += _unknown(document, text)
    table = document.get("run")
    if not isinstance(table, Mapping):
        where = place_of("run", None, text)
        said = f"{where} must be a table: write [run]" if "run" in document else "there is no table [run]"
        way_out = "it says what shall be run, and docs/own-machines.md shows one to start from"
        errors.append(FieldError("run", "missing", f"{said}; {way_out}"))
        raise refused(errors)
    given = dict(cast("Mapping[str, object]", table))
    file, wrong = _jobs_file(root, given.get("jobs"))
    run, more = parse_run(given, text, file) if not wrong else (None, [_with_line(each, text) for each in wrong])
    if errors or more or run is None:
        raise refused([*more, *errors])
    return ProjectFile(run, tuple(hosts))


def read_hosts(root: Path) -> list[Host]:
    """Only the hosts. Raises ValidationFailed, NotFound."""
    document, text = _document(root)
    hosts, errors = parse_hosts(document.get("hosts"), text)
    if errors := [*_unknown(document, text), *errors]:
        raise refused(errors)
    return hosts


def parse_run(
    table: Mapping[str, object], text: str, file: JobsFile | None = None
) -> tuple[RunTable | None, list[FieldError]]:
    """`[run]` as a value, and all that is wrong with it. Pure. file: the one that lists the jobs."""
    errors = [
        FieldError(f"run.{key}", "unknown_key", f"is no key; known are {', '.join([*_OF_EXPANSION, *_FIELDS])}")
        for key in table
        if key not in _FIELDS and key not in _OF_EXPANSION
    ]
    values: dict[str, Any] = {}
    for key, read in _FIELDS.items():
        if key in table:
            try:
                values[key] = read(table[key])
            except ValueError as error:
                errors.append(FieldError(f"run.{key}", "bad_value", str(error)))
    if values.get("second_start") and not values.get("idempotent"):
        said = "needs idempotent = true: a job that is started a second time runs twice at once"
        errors.append(FieldError("run.second_start", "needs_idempotent", said))
    jobs, wrong = expand({key: table[key] for key in _OF_EXPANSION if key in table}, file)
    errors += _told_once(wrong)
    taken = dict.fromkeys(cast("tuple[str, ...]", values.get("inputs", ())), "is an input; write elsewhere")
    taken |= {FILE: "says what is run; write elsewhere"}
    taken |= {file.name: "lists the jobs; write elsewhere"} if file is not None else {}
    errors += taken_errors((job.output for job in jobs), taken)
    errors = [_with_line(error, text) for error in errors[:_MOST_ERRORS]]
    if errors:
        return None, errors
    command = tuple(cast("list[str]", table["command"]))
    return (
        RunTable(
            tuple(jobs),
            command,
            _directory_of(str(table["output"])),
            timeout_seconds=values.pop("timeout", None),
            jobs_file=cast("str | None", table.get("jobs")),
            **values,
        ),
        [],
    )


def _told_once(errors: Sequence[FieldError]) -> list[FieldError]:
    """Of outputs that jobs would share only the first: one template made all of them."""
    shared = [error for error in errors if error.code == "duplicate"]
    way_out = "put {index}, or another placeholder that differs from job to job, into it"
    return [error for error in errors if error.code != "duplicate"] + [
        FieldError(error.field, error.code, f"{error.field}: {error.message}; {way_out}") for error in shared[:1]
    ]


def select_jobs(text: str, count: int) -> list[int]:
    """Numbers of jobs written as `3,10-19`, in order, each once. Raises ValidationFailed."""
    chosen: set[int] = set()
    for piece in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", piece)
        if not found:
            raise _bad_selection(f"{piece.strip()!r} is no number or range; write 3,10-19")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last >= count:
            raise _bad_selection(f"{piece.strip()}: the jobs of this run are 0 to {count - 1}")
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def _bad_selection(message: str) -> ValidationFailed:
    return ValidationFailed([FieldError("--jobs", "invalid", message)], hint="")


def _words(value: object) -> tuple[str, ...]:
    words = cast("list[object]", value) if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise ValueError('must be a list of words, such as ["python", "merge.py", "{outputs}"]')
    return tuple(cast("list[str]", words))


def _merge(value: object) -> tuple[str, ...]:
    words = _words(value)
    if not any("{outputs}" in word for word in words):
        raise ValueError('names no "{outputs}", which stands for the outputs in their order')
    if any("{outputs}" in word and word != "{outputs}" for word in words):
        raise ValueError('"{outputs}" must be a word of its own: it becomes one word for each output')
    return words


def _inputs(value: object) -> tuple[str, ...]:
    paths = cast("list[object]", value) if isinstance(value, list) else []
    if not isinstance(value, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError('must be a list of files, such as ["data/large.parquet"]')
    found = tuple(cast("list[str]", paths))
    for path in found:
        if problem := path_problem(path):
            raise ValueError(f"{path!r} {problem}")
    if len(set(found)) < len(found):
        raise ValueError("names a file twice")
    if len(found) > _MOST_INPUTS:
        raise ValueError(f"names {len(found):,} files; {_MOST_INPUTS:,} are the most")
    return found


def _retries(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_RETRIES:
        raise ValueError(f"must be a whole number from 0 to {_MOST_RETRIES}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


_FIELDS: Final[dict[str, Callable[[object], object]]] = {
    "inputs": _inputs,
    "merge": _merge,
    "setup": _words,
    "timeout": seconds_of,
    "retries": _retries,
    "idempotent": _flag,
    "second_start": _flag,
}


def _directory_of(output: str) -> str:
    """The directories of a template before its first placeholder."""
    plain = re.split(r"[{}]", output, maxsplit=1)[0]
    return plain.rpartition("/")[0]


def _document(root: Path) -> tuple[dict[str, Any], str]:
    try:
        text = (root / FILE).read_text("utf-8")
        return tomllib.loads(text), text
    except FileNotFoundError:
        raise NotFound(
            f"there is no {FILE} in {root}", hint=f"Write one: docs/own-machines.md shows a {FILE} to start from."
        ) from None
    except OSError as error:
        raise NotFound(f"{root / FILE} cannot be read: {(error.strerror or '').lower()}") from None
    except RecursionError:
        raise refused([FieldError(FILE, "not_toml", "its values lie too deep in one another")]) from None
    except UnicodeDecodeError as error:
        raise refused([FieldError(FILE, "not_toml", f"byte {error.start} is no UTF-8; save it as UTF-8")]) from None
    except ValueError as error:
        raise refused([FieldError(FILE, "not_toml", str(error))]) from None


def _unknown(document: Mapping[str, object], text: str) -> list[FieldError]:
    """What stands in the file and would be read by nobody."""
    errors: list[FieldError] = []
    for key in document:
        if key in _TABLES:
            continue
        header = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[.\]=]")
        line = next((number for number, each in enumerate(text.splitlines(), 1) if header.match(each)), None)
        where = f"line {line}: " if line else ""
        near = difflib.get_close_matches(key, _TABLES, n=1)
        meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(_TABLES)}"
        errors.append(FieldError(key, "unknown_key", f"{where}{key} is no key or table of this file; {meant}"))
    return errors


def _jobs_file(root: Path, name: object) -> tuple[JobsFile | None, list[FieldError]]:
    """The file of jobs, each line parsed; None when none is named."""
    if not isinstance(name, str) or not name:
        return None, []
    try:
        lines = (root / name).read_bytes().splitlines()
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        why = (error.strerror or "").lower() if isinstance(error, OSError) else "no file can have that name"
        named = repr(name) if "\0" in name else name
        said = f"run.jobs: {named}: {why}; it is looked for in the directory of {FILE}"
        return None, [FieldError("run.jobs", "unreadable", said)]
    if len(lines) > MOST_JOBS:
        return None, [FieldError("run.jobs", "too_many", f"run.jobs: {name} has more than {MOST_JOBS:,} lines")]
    records: list[tuple[int, object]] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                records.append((number, json.loads(line)))
            except (ValueError, RecursionError):
                return None, [FieldError("run.jobs", "bad_line", f"{name}, line {number}: this is no JSON")]
    return JobsFile(name, records), []


def _with_line(error: FieldError, text: str) -> FieldError:
    """The message with the line of its key before it; messages of expansion name their key already."""
    if error.code == "bad_line":  # of the file of jobs, which it names
        return error
    pieces = error.field.split(".")
    key = pieces[1].partition("[")[0] if len(pieces) > 1 else None
    place = place_of("run", key, text)
    line = f"{place.partition(': ')[0]}: " if place.startswith("line ") else ""
    said = error.message if error.message.startswith("run") else f"{error.field} {error.message}"
    return FieldError(error.field, error.code, f"{line}{said}")


def refused(errors: Sequence[FieldError]) -> ValidationFailed:
    """What is wrong with the file, or with what it names; the messages say where."""
    return ValidationFailed(
        [FieldError(FILE, error.code, error.message) for error in errors], hint="Nothing was started."
    )
