"""Options that many verbs share, and the client that they give."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minions.domain.errors import FieldError, ValidationFailed

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.runtime.settings_files import ClientSettings


Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The Minion Server. Also MINIONS_SERVER."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file that holds the token. Also MINIONS_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids only.")]
Team = Annotated[str | None, typer.Option("--team", metavar="NAME", help="Default: from the settings.")]
Project = Annotated[str | None, typer.Option("--project", metavar="NAME", help="Default: from the settings.")]
TaskReference = Annotated[str, typer.Argument(metavar="TASK", help="Its id, team/project/name, or its name.")]
TaskReferences = Annotated[
    list[str], typer.Argument(metavar="TASK", help="Ids, team/project/name, or names.", show_default=False)
]
ExecutorReference = Annotated[str, typer.Argument(metavar="EXECUTOR", help="Its id, or its name.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up waiting after this long.")
]


_OPEN: ContextVar[ExitStack] = ContextVar("_OPEN")


@contextmanager
def closing_clients() -> Generator[None]:
    """While a command runs: the clients that it makes are closed at its end, however it ends."""
    with ExitStack() as stack:
        previous = _OPEN.set(stack)
        try:
            yield
        finally:
            _OPEN.reset(previous)


def settings(
    server: str | None, token_file: Path | None, team: str | None = None, project: str | None = None
) -> ClientSettings:
    """The settings with these flags on top."""
    from minions.runtime.settings_files import read_settings

    token = None
    if token_file is not None:
        try:
            token = token_file.expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not text"
            raise ValidationFailed([FieldError("--token-file", "unreadable", f"{token_file}: {reason}")]) from None
    return read_settings({"server": server, "token": token, "team": team, "project": project}, os.environ, Path.cwd())


def client(server: str | None, token_file: Path | None, team: str | None = None, project: str | None = None) -> Client:
    """A client of the server that the flags and settings name."""
    from minions.client.client import Client

    found = Client(settings=settings(server, token_file, team, project))
    stack = _OPEN.get(None)
    if stack is not None:
        stack.callback(found.close)
    return found
