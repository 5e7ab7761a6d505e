"""What tasks and things are called: (team, project, task_name), and prefixed ids."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from minions.domain.errors import FieldError, NotFound
from minions.domain.phrases import quoted

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NAME_RULE = "1 to 63 characters of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_WIDTH = 8


@dataclass(frozen=True, slots=True, order=True)
class TaskName:
    """The full name of a task; unique in a deployment."""

    team: str
    project: str
    task_name: str

    def __str__(self) -> str:
        return f"{self.team}/{self.project}/{self.task_name}"

    def errors(self) -> list[FieldError]:
        """What is wrong with the three parts, each with its field; empty when valid."""
        return [
            FieldError(field, "bad_name", f"{quoted(value)} is not a name: {NAME_RULE}")
            for field, value in (("team", self.team), ("project", self.project), ("task_name", self.task_name))
            if not NAME.fullmatch(value)
        ]


@dataclass(frozen=True, slots=True)
class Preference:
    """A (team, project, task_name) that an executor's owner would rather work on; None means any."""

    team: str | None = None
    project: str | None = None
    task_name: str | None = None

    @classmethod
    def parse(cls, text: str) -> Preference:
        """Read `team/project/task`; a part that is `*`, or left away at the end, is any. Raises ValueError."""
        parts = text.split("/")
        if len(parts) > 3 or any(part != "*" and not NAME.fullmatch(part) for part in parts):
            raise ValueError(f"{text!r} is no preference: write team/project/task, each {NAME_RULE}, or * for any")
        parts += ["*"] * (3 - len(parts))
        return cls(*(None if part == "*" else part for part in parts))

    def __str__(self) -> str:
        return "/".join(part or "*" for part in (self.team, self.project, self.task_name))

    def within(self, teams: Collection[str] | None) -> list[Preference]:
        """What is left of it for an executor that is lent to these teams only; None: to all."""
        if teams is None or self.team in teams:
            return [self]
        return [] if self.team is not None else [replace(self, team=team) for team in sorted(teams)]

    def covers(self, name: TaskName) -> bool:
        """Whether the task is one of those preferred."""
        return all(
            wanted is None or wanted == given
            for wanted, given in (
                (self.team, name.team),
                (self.project, name.project),
                (self.task_name, name.task_name),
            )
        )


def public_id(prefix: str, number: int) -> str:
    """The id that people and programs see for a database number: `tsk_0000002a`."""
    digits = ""
    while number:
        number, rest = divmod(number, 32)
        digits = _ALPHABET[rest] + digits
    return f"{prefix}_{digits.rjust(_WIDTH, '0')}"


def number_of(prefix: str, text: str) -> int:
    """The database number behind a public id. Raises NotFound when it is no id of this kind."""
    head, _, digits = text.partition("_")
    if head != prefix or not 1 <= len(digits) <= 13 or any(digit not in _ALPHABET for digit in digits):
        raise NotFound(f"{text!r} is no id of this kind; one looks like {public_id(prefix, 42)}")
    number = 0
    for digit in digits:
        number = number * 32 + _ALPHABET.index(digit)
    if number >= 2**63:
        raise NotFound(f"{text!r} is no id of this kind; one looks like {public_id(prefix, 42)}")
    return number
