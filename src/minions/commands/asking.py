"""Asking before what cannot be taken back."""

from __future__ import annotations

import sys

import typer

from minions.commands.services import invalid


def ask(question: str, field: str, *, yes: bool) -> None:
    """Go on only if somebody says yes; yes: they have. field: what is named where nobody can be asked.

    Raises ValidationFailed there, typer.Abort on a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise invalid(field, "nobody can be asked here; give --yes as well")
    typer.confirm(question, abort=True, err=True)
