"""minions executor uninstall."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import services
from minions.commands.executor import speaking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minions.executor.installation import Kept


def command(
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete models, history, identity and the owner's file as well.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --purge deletes.")] = False,
    state: speaking.State = None,
    cache: speaking.Cache = None,
    owner_file: speaking.OwnerFile = None,
) -> None:
    """Stop the executor that is installed here, and remove it. Its token is deleted; models and history stay."""
    import sys

    from minions.commands.output import to_stderr
    from minions.domain.errors import NotFound

    with services.needing("executor"):
        from minions.executor import installation
        from minions.executor.service_manager import service_manager

    manager = service_manager(sys.platform, Path.home())
    is_installed = manager.file.exists()
    if not is_installed and not purge:
        raise NotFound(
            f"no executor is installed here: there is no {manager.file}",
            hint="`minions executor stop` ends one that runs in a terminal; --purge deletes what one has left.",
        )
    places = speaking.places(speaking.installed_flags(), state, cache, owner_file)
    if purge:
        _ask(installation.kept(places), yes=yes)
    if is_installed:
        manager.remove()
        places.token_file.unlink(missing_ok=True)
        to_stderr(f"Stopped, and removed {manager.file} and the token.")
    if purge:
        installation.purge(places)
        to_stderr("Deleted all that it kept here.")
        return
    _name(installation.kept(places), "Kept")
    to_stderr("`minions executor uninstall --purge` deletes them.", style="dim")


def _ask(found: Sequence[Kept], *, yes: bool) -> None:
    from minions.commands.asking import ask

    _name(found, "Deletes")
    ask("Delete them?", "--purge", yes=yes)


def _name(found: Sequence[Kept], verb: str) -> None:
    from minions.commands.output import bytes_text, to_stderr

    for each in found:
        to_stderr(f"{verb} {each.what}: {each.place} ({bytes_text(each.size_bytes)})")
