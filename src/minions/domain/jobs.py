"""Jobs: what the table `[run]` asks for becomes commands with one output each, and each job has an identity. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minions.domain.errors import FieldError
from minions.domain.output_paths import output_errors, path_problem

MOST_JOBS = 1_000_000
MOST_LINE_BYTES = 1 << 20
_SOURCES = ("range", "list", "matrix", "jobs")
_SHOWN = 80
_WIDEST = 64  # characters of a placeholder, so that a slip of the pen fills no memory

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Job:
    """One command with one output. environment: all variables that were chosen for it."""

    index: int
    argv: tuple[str, ...]
    output: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pinned:
    """What all jobs of a run have in common. inputs: SHA-256 by path."""

    commit: str
    patch_sha256: str | None
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobsFile:
    """The file that `jobs` names. lines: the number of each line that is not empty, and what it holds."""

    name: str
    lines: Sequence[tuple[int, object]]

    def place(self, index: int) -> str:
        """Where a job stands."""
        return f"{self.name}, line {self.lines[index][0]}"


def job_id(pinned: Pinned, job: Job) -> str:
    """The identity of a job (64 hex digits): the same work has the same one, wherever it stands in a list."""
    work = {
        "argv": list(job.argv),
        "commit": pinned.commit,
        "environment": dict(job.environment),
        "inputs": dict(pinned.inputs),
        "output": job.output,
        "patch": pinned.patch_sha256,
    }
    # ASCII: arguments that are no UTF-8 are surrogates here, which have no bytes of their own.
    return hashlib.sha256(json.dumps(work, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def expand(run: Mapping[str, object], file: JobsFile | None = None) -> tuple[list[Job], list[FieldError]]:
    """The jobs of a table `[run]`, and all that is wrong; with errors, the jobs mean nothing.

    Read here: command, output, environment, and one of range, list, matrix, jobs. file: the one that `jobs` names. What
    is wrong with a line of it has the code "bad_line", and a message that names the file and the line.
    """
    errors: list[FieldError] = []
    command = _texts(run.get("command"), "run.command", errors)
    output = _text(run.get("output"), "run.output", errors)
    environment = _environment(run.get("environment", {}), errors)
    given = [source for source in _SOURCES if source in run]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        errors.append(FieldError("run", "sources", f"run: give one of {', '.join(_SOURCES)}, not {said}"))
        return [], errors
    values = _from_file(file, run["jobs"], errors) if given == ["jobs"] else _SOURCE[given[0]](run[given[0]], errors)
    if len(values) > MOST_JOBS:
        errors.append(FieldError(f"run.{given[0]}", "too_many", f"{len(values):,} jobs; {MOST_JOBS:,} are the most"))
    if errors:
        return [], errors
    templates = _Templates(command, output, environment)
    jobs: list[Job] = []
    for index, fields in enumerate(values):
        try:
            jobs.append(templates.job(index, fields))
        except _Wrong as wrong:
            where = f"job {index}" if file is None else file.place(index)
            errors.append(FieldError(wrong.key, "bad_value", f"{wrong.key}: {wrong} ({where}: {_shown(fields)})"))
            return [], errors  # the next job would most likely say the same
    return jobs, errors + output_errors(job.output for job in jobs)


def job_line(job: Job, identity: str) -> bytes:
    """The job as a line of the input of its task."""
    line: dict[str, object] = {"index": job.index, "id": identity, "argv": list(job.argv), "output": job.output}
    if job.environment:
        line["environment"] = dict(job.environment)
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def printable(word: str) -> str:
    """Half a surrogate pair, which neither an answer nor a terminal can hold, as its escape."""
    return word.encode("utf-8", "backslashreplace").decode()


def parse_job_line(line: bytes) -> tuple[Job, str]:
    """The job of a line, and its identity as the line tells it. Raises ValueError."""
    if len(line) > MOST_LINE_BYTES:
        raise ValueError(f"the line has {len(line):,} bytes; {MOST_LINE_BYTES:,} are the most")
    try:
        found: Any = json.loads(line)
    except ValueError:
        raise ValueError("the line is no JSON") from None
    table = _table(found)
    if table is None or set(table) - _LINE_KEYS:
        raise ValueError(f"the line is an object with {', '.join(sorted(_LINE_KEYS))} and nothing else")
    index, identity, output = (table.get(key) for key in ("index", "id", "output"))
    if type(index) is not int or index < 0:
        raise ValueError("index must be a whole number from 0")
    if not isinstance(identity, str) or len(identity) != 64 or set(identity) - set("0123456789abcdef"):
        raise ValueError("id must be 64 hexadecimal digits")
    errors: list[FieldError] = []
    words = _texts(table.get("argv"), "argv", errors)
    chosen = _environment(table.get("environment", {}), errors, "environment")
    if errors:
        raise ValueError(errors[0].message)
    if not isinstance(output, str):
        raise ValueError("output must be text")
    if problem := path_problem(output):
        raise ValueError(f"output {output!r} {problem}")
    return Job(index, tuple(words), output, chosen), identity


_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_KEYS = {"index", "id", "argv", "output", "environment"}


class _Wrong(ValueError):
    """A template and a value that do not go together."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


class _Templates:
    """The command, the output and the environment, with placeholders."""

    def __init__(self, command: Sequence[str], output: str, environment: Mapping[str, str]) -> None:
        self._command = command
        self._output = output
        self._environment = environment

    def job(self, index: int, fields: Mapping[str, Value]) -> Job:
        """Raises _Wrong, naming the key."""
        values: dict[str, Value] = {**fields, "index": index}
        output = _rendered(self._output, values, "run.output")
        if problem := path_problem(output):
            raise _Wrong("run.output", f"{output!r} {problem}")
        values["output"] = output
        argv = tuple(_rendered(word, values, f"run.command[{place}]") for place, word in enumerate(self._command))
        environment = {
            name: _rendered(text, values, f"run.environment.{name}") for name, text in self._environment.items()
        }
        job = Job(index, argv, output, environment)
        characters = sum(map(len, argv)) + sum(map(len, environment.values()))
        if characters > MOST_LINE_BYTES // 12 and len(job_line(job, "0" * 64)) > MOST_LINE_BYTES:
            said = f"its arguments and variables have more than {MOST_LINE_BYTES:,} bytes; write them into a file"
            raise _Wrong("run.command", said)
        return job


def _rendered(template: str, values: Mapping[str, Value], key: str) -> str:
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise _Wrong(key, f"{template!r} is no template ({error}); {{{{ and }}}} stand for braces") from None
    made: list[str] = []
    for literal, name, spec, conversion in pieces:
        made.append(literal)
        if name is None:
            continue
        if name not in values:
            known = ", ".join(f"{{{each}}}" for each in values)
            raise _Wrong(key, f"{{{name}}} is no placeholder here; there are {known}")
        if conversion:
            raise _Wrong(key, f"{{{name}!{conversion}}}: conversions are not for commands; write {{{name}}}")
        if any(int(number) > _WIDEST for number in re.findall(r"[0-9]+", (spec or "")[:_SHOWN])):
            raise _Wrong(key, f"{{{name}:{(spec or '')[:_SHOWN]}}} is too wide; {_WIDEST} characters are the most")
        try:
            made.append(format(values[name], spec or ""))
        except ValueError:
            raise _Wrong(key, f"{values[name]!r} does not fit {{{name}:{spec}}}") from None
    text = "".join(made)
    if "\0" in text:
        raise _Wrong(key, "a zero byte ends an argument; there must be none")
    if found := _SURROGATE.search(text):
        said = f"character {found.start()} is half of a surrogate pair, which is no text in UTF-8; write the whole one"
        raise _Wrong(key, said)
    return text


def _from_range(given: object, errors: list[FieldError]) -> list[dict[str, Value]]:
    table = _table(given) or {}
    if set(table) - {"start", "stop", "step"} or "stop" not in table:
        errors.append(_wrong("run.range", given, "must be { start = 0, stop = 100, step = 10 }"))
        return []
    numbers: dict[str, int] = {"start": 0, "step": 1}
    for name, value in table.items():
        if type(value) is not int:
            errors.append(_wrong(f"run.range.{name}", value, "must be a whole number"))
            return []
        numbers[name] = value
    start, stop, step = numbers["start"], numbers["stop"], numbers["step"]
    if step < 1:
        errors.append(_wrong("run.range.step", step, "must be at least 1"))
    elif stop <= start:
        errors.append(_wrong("run.range.stop", stop, f"must be more than start, which is {start}"))
    elif math.ceil((stop - start) / step) > MOST_JOBS:
        errors.append(_wrong("run.range.step", step, f"gives more than {MOST_JOBS:,} jobs; make it larger"))
    else:
        return [{"start": first, "stop": min(first + step, stop)} for first in range(start, stop, step)]
    return []


def _from_list(given: object, errors: list[FieldError]) -> list[dict[str, Value]]:
    items = _items(given) or []
    if not items:
        errors.append(_wrong("run.list", given, 'must be a list with at least one value, such as ["a", "b"]'))
    found: list[dict[str, Value]] = []
    for place, item in enumerate(items):
        table = _table(item)
        found.append(_fields({"item": item} if table is None else table, f"run.list[{place}]", errors))
        if errors:
            return []
    return found


def _from_file(file: JobsFile | None, given: object, errors: list[FieldError]) -> list[dict[str, Value]]:
    if file is None:
        errors.append(_wrong("run.jobs", given, 'must name a file of JSON lines, such as "jobs.jsonl"'))
        return []
    if not file.lines:
        said = f'run.jobs: {file.name} has no jobs; write one JSON object on each line, such as {{"seed": 1}}'
        errors.append(FieldError("run.jobs", "empty", said))
    found: list[dict[str, Value]] = []
    for place, (_, item) in enumerate(file.lines):
        wrong: list[FieldError] = []
        table = _table(item)
        found.append(_fields({"item": item} if table is None else table, file.place(place), wrong))
        if wrong:
            errors += [FieldError(each.field, "bad_line", each.message) for each in wrong]
            return []
    return found


def _from_matrix(given: object, errors: list[FieldError]) -> list[dict[str, Value]]:
    table = _table(given) or {}
    if not table:
        errors.append(_wrong("run.matrix", given, 'must be { NAME = [values], … }, such as { size = ["s", "l"] }'))
    axes: list[list[dict[str, Value]]] = []
    for name, values in table.items():
        listed = _items(values)
        if not listed:
            said = 'must be a list with at least one value, such as ["s", "l"]'
            errors.append(_wrong(f"run.matrix.{name}", values, said))
            continue
        axes.append([_fields({name: each}, f"run.matrix.{name}[{at}]", errors) for at, each in enumerate(listed)])
    if errors:
        return []
    if math.prod(len(axis) for axis in axes) > MOST_JOBS:
        errors.append(
            FieldError("run.matrix", "too_many", f"run.matrix gives more than {MOST_JOBS:,} jobs; take values out")
        )
        return []
    return [{name: value for each in row for name, value in each.items()} for row in itertools.product(*axes)]


_SOURCE: dict[str, Callable[[object, list[FieldError]], list[dict[str, Value]]]] = {
    "range": _from_range,
    "list": _from_list,
    "matrix": _from_matrix,
}


def _fields(given: Mapping[str, object], key: str, errors: list[FieldError]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in given.items():
        if not name.isidentifier() or name in ("index", "output"):
            errors.append(FieldError(key, "bad_name", f"{key}: {name!r} cannot be the name of a placeholder"))
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            errors.append(_wrong(f"{key}.{name}" if name != "item" else key, value, "must be a text or a number"))
        else:
            found[name] = value
    return found


def _texts(given: object, key: str, errors: list[FieldError]) -> list[str]:
    words = _items(given) or []
    texts = [word for word in words if isinstance(word, str) and "\0" not in word]
    if not texts or len(texts) < len(words) or not texts[0]:
        errors.append(_wrong(key, given, 'must be a list of words, such as ["python", "run.py", "{output}"]'))
        return []
    return texts


def _text(given: object, key: str, errors: list[FieldError]) -> str:
    if not isinstance(given, str) or not given:
        errors.append(_wrong(key, given, 'must be a path with a placeholder, such as "results/{index:03}.json"'))
        return ""
    return given


def _environment(given: object, errors: list[FieldError], key: str = "run.environment") -> dict[str, str]:
    table = _table(given)
    if table is None:
        errors.append(_wrong(key, given, 'must be a table, such as { SEED = "{index}" }'))
        return {}
    chosen: dict[str, str] = {}
    for name, value in table.items():
        if not name or "=" in name or "\0" in name or name.startswith("MINIONS_"):
            said = f"{key}: {name!r} is no name for a variable: no '=', and not MINIONS_…"
            errors.append(FieldError(f"{key}.{name}", "bad_name", said))
        elif not isinstance(value, str) or "\0" in value:
            errors.append(_wrong(f"{key}.{name}", value, "must be text"))
        else:
            chosen[name] = value
    return chosen


def _table(value: object) -> dict[str, object] | None:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else None


def _items(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def _wrong(key: str, value: object, rule: str) -> FieldError:
    said = "is missing;" if value is None else f"= {_shown(value)}:"
    return FieldError(key, "bad_value", f"{key} {said} it {rule}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
