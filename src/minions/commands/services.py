"""Processes that serve until they are told to stop: what their verbs share."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from minions.domain.errors import FieldError, MinionsError, Unavailable, ValidationFailed

log = logging.getLogger(__name__)

DatabaseUrl = Annotated[
    str,
    typer.Option(
        "--database-url",
        metavar="URL",
        envvar="MINIONS_DATABASE_URL",
        help="PostgreSQL, version 14 or later: postgresql://USER:PASSWORD@HOST/NAME, or - to read it from stdin.",
        show_default=False,
    ),
]
LogJson = Annotated[bool, typer.Option("--log-json", envvar="MINIONS_LOG_JSON", help="Log JSON lines.")]
ParentFd = Annotated[
    int | None,
    typer.Option("--parent-fd", hidden=True, help="End when this inherited pipe reaches its end."),
]


def lease_option(says: str) -> Any:
    """--lease, as this process means it."""
    return typer.Option("--lease", metavar="SECONDS", envvar="MINIONS_LEASE", min=1, help=says)


def heartbeat_option(says: str) -> Any:
    """--heartbeat, as this process means it."""
    return typer.Option("--heartbeat", metavar="SECONDS", envvar="MINIONS_HEARTBEAT", min=0.1, help=says)


def begin(parent_fd: int | None, log_json: bool) -> None:
    """The first thing that such a process does."""
    from minions.runtime.logs import set_up_logs
    from minions.runtime.parent import end_with_parent

    set_up_logs(json_lines=log_json)
    if parent_fd is not None:
        try:
            end_with_parent(parent_fd)
        except OSError as error:
            raise invalid("--parent-fd", f"{parent_fd}: {(error.strerror or '').lower()}") from None


@contextmanager
def needing(extra: str) -> Generator[None]:
    """Around imports: a library that is not installed is named, with the way to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "minions":
            raise
        raise MinionsError(
            f"this needs {error.name}, which is not installed", hint=f"pip install 'minions-cloud[{extra}]'"
        ) from None


def run_service(work: Callable[[], Coroutine[Any, Any, None]], *, database_url: str = "", uvloop: bool = False) -> None:
    """Run it until SIGTERM or SIGINT. What keeps it from working ends it with exit code 1 and one sentence."""
    from minions.commands.failures import ERROR, report
    from minions.runtime.signals import run_until_stopped

    factory = None
    if uvloop:
        from uvloop import new_event_loop as factory
    try:
        run_until_stopped(work(), factory)
    except ValidationFailed:
        raise
    except Unavailable as error:
        if error.advice == Unavailable.hint:  # it speaks of requests; nothing was asked for here
            error.advice = f"Start it, or correct --database-url, which names {place_of(database_url)}."
        report(error)
        raise typer.Exit(ERROR) from None
    except MinionsError as error:
        report(error)
        raise typer.Exit(ERROR) from None
    except Exception:
        if os.environ.get("MINIONS_DEBUG") == "1":
            raise
        log.critical("ended by an error that nobody foresaw; MINIONS_DEBUG=1 shows all of it", exc_info=True)
        raise typer.Exit(ERROR) from None


def given_database_url(url: str) -> str:
    """The address of the database; a line of standard input where it says so."""
    if url == "-":
        url = read_secret("--database-url")
    if not url.startswith(("postgresql://", "postgres://")):
        raise invalid("--database-url", "it must begin with postgresql://")
    try:
        several = "," in urlsplit(url).netloc
        if not several:
            _ = urlsplit(url).port
    except ValueError as error:
        raise invalid("--database-url", str(error)) from None
    return url


def place_of(database_url: str) -> str:
    """Where a database is and its name, without the user and the password."""
    parts = urlsplit(database_url)
    socket = parse_qs(parts.query).get("host", ["the local socket"])
    return (parts.netloc.rpartition("@")[2] or socket[0]) + parts.path


def read_secret(flag: str) -> str:
    """One line of standard input."""
    line = sys.stdin.readline().strip()
    if not line:
        raise invalid(flag, "standard input holds no line")
    return line


def is_for_verb(context: typer.Context) -> bool:
    """Whether a verb of the group follows, whose own options must stand behind it. Raises ValidationFailed."""
    verb = context.invoked_subcommand
    if verb is None:
        return False
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            flag = parameter.opts[0]
            raise invalid(flag, f"it is not for {verb!r} here; write it behind: {context.command_path} {verb} {flag} …")
    return True


def invalid(flag: str, message: str) -> ValidationFailed:
    """One flag is wrong."""
    return ValidationFailed([FieldError(flag, "invalid", message)], hint="")
