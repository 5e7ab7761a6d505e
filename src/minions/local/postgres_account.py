"""Whom PostgreSQL runs as: it refuses root, so a root process hands it to an unprivileged account."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system's account that PostgreSQL runs as; `other` when it is not this process's own."""

    name: str
    uid: int
    gid: int
    other: bool

    def hand_over(self, path: Path) -> None:
        """Make the account the owner of a file that this process wrote for it."""
        if self.other:
            os.chown(path, self.uid, self.gid)


def account_for(directory: Path) -> Account:
    """Choose the account: this user, or under root the directory's owner so far, else `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return Account(_name_of(os.geteuid()), os.geteuid(), os.getegid(), other=False)
    owner = directory.stat().st_uid
    names = [_name_of(owner)] if owner != 0 else ["postgres", "nobody"]
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, other=True)
    raise Unavailable(
        "PostgreSQL refuses to run as root, and this machine has no account `postgres` or `nobody`",
        hint="Run Minions as an ordinary user, or point MINIONS_DATABASE_URL at a PostgreSQL that already runs.",
    )


def command_as(account: Account, argv: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """The command that runs argv as the account; `paths` are the files that it has to reach.

    A root user's home is closed to others. Opening it to everyone for PostgreSQL's sake would be worse than giving
    this one process the capability to pass, which root (who alone can talk to it) has anyway.
    """
    if not account.other:
        return list(argv)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Unavailable(
            "PostgreSQL refuses to run as root, and `setpriv` (util-linux) is not here to run it as another user",
            hint="Run Minions as an ordinary user, or point MINIONS_DATABASE_URL at a PostgreSQL that already runs.",
        )
    command = [setpriv, f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]
    if not all(_open_to_others(path) for path in paths):
        command += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return [*command, "--", *argv]


def _open_to_others(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise Unavailable(
            f"User id {uid} has no name on this machine, which PostgreSQL asks for",
            hint="Add the user to /etc/passwd, or point MINIONS_DATABASE_URL at a PostgreSQL that already runs.",
        ) from None
