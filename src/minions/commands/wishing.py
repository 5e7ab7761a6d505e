"""What people wish of hosts: written down for the coordinator, which reads it within a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from minions.hosts.run_directory import HostWish

HostName = Annotated[str, typer.Argument(metavar="NAME", help="A host of minions.toml.")]


def wish(name: str, change: Callable[[HostWish], HostWish], said: str) -> None:
    """Change what is wished of a host, and say so. Raises NotFound."""
    from minions.commands.hosts.check import chosen_hosts
    from minions.commands.output import to_stderr
    from minions.commands.project import here
    from minions.hosts.run_directory import HostWish

    directory = here()
    chosen_hosts(directory.root, [name])
    directory.make()
    directory.wish(name, change(directory.wishes().get(name, HostWish())))
    when = "" if directory.coordinator() is not None else " No run goes on; it holds from the next one."
    to_stderr(f"{name} {said}.{when}")
