"""What an executor of commands is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

OUR_VARIABLES = "MINIONS_"
OF_A_LOGIN = ("MAIL", "OLDPWD", "PWD", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY")
"""Variables of how somebody came to this machine: they differ from host to host, and mean nothing to a job."""


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """state: a directory of its own; it makes the executor the same one next time. slots: jobs at once.

    term_seconds: from asking a job to end to ending it.
    """

    server: str
    token: str = field(repr=False)
    name: str
    state: Path
    slots: int
    owner: str = ""
    version: str = "0"
    term_seconds: float = 1.0
