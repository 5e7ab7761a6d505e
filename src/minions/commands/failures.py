"""Errors on the command line: one sentence on stderr, the hint, and the exit code."""

from __future__ import annotations

from minions.client.faults import WaitTimedOut
from minions.commands.output import to_stderr
from minions.domain.errors import AccessDenied, MinionsError, NotFound, Unavailable, ValidationFailed

OK, ERROR, USAGE, ACCESS, NOT_FOUND, FAILED_ROWS, TIMED_OUT, UNREACHABLE = range(8)
INTERRUPTED = 130

_CODES: tuple[tuple[type[MinionsError], int], ...] = (
    (ValidationFailed, USAGE),
    (AccessDenied, ACCESS),
    (NotFound, NOT_FOUND),
    (WaitTimedOut, TIMED_OUT),
    (Unavailable, UNREACHABLE),
)


def code_of(error: MinionsError) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), ERROR)


def report(error: MinionsError) -> int:
    """Say what is wrong and what to do; returns the exit code."""
    if isinstance(error, ValidationFailed) and error.errors:
        for entry in error.errors:
            to_stderr(("error ", "bold red"), (f"{entry.field}: " if entry.field else "", "bold"), entry.message)
    else:
        to_stderr(("error ", "bold red"), error.message)
    if error.advice:
        to_stderr(error.advice, style="dim")
    return code_of(error)


def report_defect(error: Exception) -> int:
    """An error that nobody foresaw."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        to_stderr(("error ", "bold red"), f"{where}{(error.strerror or type(error).__name__).lower()}")
        return ERROR
    to_stderr(("error ", "bold red"), f"this should not happen ({type(error).__name__})")
    to_stderr("Run it again with MINIONS_DEBUG=1 to see where, and report it.", style="dim")
    return ERROR
