"""The hosts of a project: the tables `[hosts.NAME]` of minions.toml, each error with its key and line. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from minions.domain.errors import FieldError
from minions.domain.names import NAME, NAME_RULE
from minions.hosts.durations import seconds_of

LOCAL = "local"
MOST_SLOTS = 1024
MOST_KEPT = 1000
LEAST_SILENCE_SECONDS, MOST_SILENCE_SECONDS = 3.0, 120.0  # the agent on a host ends itself after 90 without a ping
STATE = "~/.local/state/minions"


@dataclass(frozen=True, slots=True)
class Host:
    """One machine that runs jobs.

    ssh: a name that ssh knows; None: this machine. slots: jobs at once. python: the interpreter for Minions itself;
    None: looked for. path: directories before the PATH. setup: a command that makes a worktree ready. state: where
    Minions keeps its things. environment: variables for the setup and the jobs. silence_seconds: for so long nothing
    may be heard of it until its connection counts as cut. keep: worktrees, and environments, of one project.
    """

    name: str
    ssh: str | None = None
    slots: int = 1
    python: str | None = None
    path: tuple[str, ...] = ()
    setup: tuple[str, ...] | None = None
    state: str = STATE
    environment: tuple[tuple[str, str], ...] = ()
    silence_seconds: float = 45.0
    keep: int = 8

    @property
    def is_local(self) -> bool:
        return self.ssh is None

    @property
    def ping_seconds(self) -> float:
        """How often it is asked for a sign of life."""
        return self.silence_seconds / 3


def parse_hosts(tables: object, text: str = "") -> tuple[list[Host], list[FieldError]]:
    """The hosts, in the order of the file, and all that is wrong.

    tables: the value of `hosts` in the parsed file; None when the file has none: then this machine, with one slot.
    text: the file, for the lines. With errors, the hosts mean nothing.
    """
    if tables is None:
        return [Host(LOCAL)], []
    if not isinstance(tables, Mapping):
        return [], [FieldError("hosts", "bad_value", f"{place_of('hosts', None, text)} must be tables [hosts.NAME]")]
    hosts: list[Host] = []
    errors: list[FieldError] = []
    for name, table in cast("Mapping[str, object]", tables).items():
        key = f"hosts.{name}"
        if not NAME.fullmatch(name):
            errors.append(FieldError(key, "bad_name", f"{place_of(key, None, text)}: a host is named by {NAME_RULE}"))
        if not isinstance(table, Mapping):
            errors.append(FieldError(key, "bad_value", f"{place_of(key, None, text)} must be a table [hosts.{name}]"))
            continue
        hosts.append(_host(name, cast("Mapping[str, object]", table), text, errors))
    if not tables:
        errors.append(FieldError("hosts", "missing", "hosts: name at least one, such as [hosts.local]"))
    return hosts, errors


def _host(name: str, table: Mapping[str, object], text: str, errors: list[FieldError]) -> Host:
    key = f"hosts.{name}"
    values: dict[str, Any] = {}
    for field, value in table.items():
        place = place_of(key, field, text)
        read = _FIELDS.get(field)
        if read is None:
            known = ", ".join(_FIELDS)
            errors.append(FieldError(f"{key}.{field}", "unknown_key", f"{place} is no key; known are {known}"))
            continue
        try:
            values[_NAMES.get(field, field)] = read(value)
        except ValueError as error:
            errors.append(FieldError(f"{key}.{field}", "bad_value", f"{place}: {error}"))
    if "ssh" not in table and name != LOCAL:
        what = (
            f'{place_of(key, None, text)} needs ssh = "NAME", a name that ssh knows; only hosts.{LOCAL} is this machine'
        )
        errors.append(FieldError(f"{key}.ssh", "missing", what))
    return Host(name, **values)


def _destination(value: object) -> str:
    if not isinstance(value, str) or not value or value != value.strip():
        raise ValueError('must be a name that ssh knows, such as "mini", "me@mini" or "ssh://me@mini:2222"')
    if value.startswith("-") or not value.isprintable() or " " in value:
        raise ValueError(f"{value!r} is no destination for ssh; options belong into ~/.ssh/config")
    return value


def _slots(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SLOTS:
        raise ValueError(f"must be a whole number from 1 to {MOST_SLOTS}")
    return value


def _keep(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_KEPT:
        raise ValueError(f"must be a whole number from 1 to {MOST_KEPT}")
    return value


def _place_on_host(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("/", "~/")) or "\0" in value or "\n" in value:
        raise ValueError("must be a path on the host that begins with / or ~/")
    return value.rstrip("/") or "/"


def _directories(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError('must be a list of directories, such as ["/opt/tools/bin"]')
    return tuple(_place_on_host(place) for place in cast("list[object]", value))


def _command(value: object) -> tuple[str, ...]:
    words = cast("list[object]", value) if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise ValueError('must be a command as a list of words, such as ["make", "deps"]')
    return tuple(cast("list[str]", words))


def _environment(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise ValueError('must be a table of texts, such as { OMP_NUM_THREADS = "1" }')
    found = cast("Mapping[str, object]", value)
    for name, text in found.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{name!r} is no name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"{name} must be text, in quotes")
    return tuple(sorted(cast("Mapping[str, str]", found).items()))


def _silence(value: object) -> float:
    seconds = seconds_of(value)
    if not LEAST_SILENCE_SECONDS <= seconds <= MOST_SILENCE_SECONDS:
        raise ValueError(f"must be from {LEAST_SILENCE_SECONDS:.0f}s to {MOST_SILENCE_SECONDS:.0f}s")
    return seconds


_NAMES: Final = {"silence": "silence_seconds"}
_FIELDS: Final[dict[str, Callable[[object], object]]] = {
    "ssh": _destination,
    "slots": _slots,
    "python": _place_on_host,
    "path": _directories,
    "setup": _command,
    "state": _place_on_host,
    "environment": _environment,
    "silence": _silence,
    "keep": _keep,
}


def place_of(key: str, field: str | None, text: str) -> str:
    """`line 7: hosts.mini.slots`; without the line where it cannot be told."""
    full = f"{key}.{field}" if field else key
    line = _line(key, field, text)
    return f"line {line}: {full}" if line else full


def _line(key: str, field: str | None, text: str) -> int | None:
    """Where a key stands: in its table, the table itself, or before all tables. Written in other ways it has none."""
    header = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in key.split(".", 1)))
    plain = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    inside: int | None = None
    is_top = True
    for number, line in enumerate(text.splitlines(), 1):
        if is_top and field is None and plain.match(line):
            return number
        if re.match(r"\s*\[", line):
            is_top = False
            inside = number if re.fullmatch(header.pattern + r"\s*\]\s*(#.*)?", line) else None
            if inside and field is None:
                return number
        elif inside and field and re.match(rf"\s*[\"']?{re.escape(field)}[\"']?\s*[.=]", line):
            return number
    return None
