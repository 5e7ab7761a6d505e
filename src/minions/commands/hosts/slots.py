"""minions hosts slots."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands.wishing import HostName, wish


def command(
    name: HostName,
    slots: Annotated[
        int | None, typer.Argument(metavar="NUMBER", max=1024, help="Jobs at once. Default: as minions.toml says.")
    ] = None,
) -> None:
    """Change how many jobs a host runs at once, now and in later runs; what runs is not stopped.

    Without a number it is again as minions.toml says.
    """
    from dataclasses import replace

    from minions.commands.output import counted

    if slots is not None and slots < 1:
        raise typer.BadParameter(f"a host runs at least 1 job at once; `minions hosts pause {name}` gives it none")
    said = "has as many slots as minions.toml says" if slots is None else f"runs {counted(slots, 'job')} at once"
    wish(name, lambda before: replace(before, slots=slots), said)
