"""minions hosts slots."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands.wishing import HostName, wish


def command(
    name: HostName,
    slots: Annotated[int, typer.Argument(metavar="NUMBER", min=0, max=1024, help="Jobs at once.")],
) -> None:
    """Change how many jobs a host runs at once, now and in later runs; what runs is not stopped."""
    from dataclasses import replace

    from minions.commands.output import counted

    wish(name, lambda before: replace(before, slots=slots), f"runs {counted(slots, 'job')} at once")
