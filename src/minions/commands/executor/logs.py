"""minions executor logs."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands.executor import speaking

_LOOK_SECONDS = 0.5


def command(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="NUMBER", min=0, help="The last so many.")] = 100,
    engine: Annotated[bool, typer.Option("--engine", help="What the engine's libraries print.")] = False,
    state: speaking.State = None,
) -> None:
    """Show the log of the executor on this machine."""
    import sys
    import time
    from collections import deque

    from minions.domain.errors import NotFound
    from minions.executor.places import ENGINE_LOG_FILE, LOG_FILE

    file = speaking.state_here(state) / (ENGINE_LOG_FILE if engine else LOG_FILE)
    try:
        log = file.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise NotFound(
            f"there is no log at {file}", hint="It is written once an executor runs with this state directory."
        ) from None
    with log:
        sys.stdout.writelines(deque(log, lines))
        sys.stdout.flush()
        while follow:
            if more := log.read():
                sys.stdout.write(more)
                sys.stdout.flush()
                continue
            time.sleep(_LOOK_SECONDS)
            if file.exists() and file.stat().st_ino != _inode(log.fileno()):
                log.close()  # it grew too long, and another was begun
                log = file.open(encoding="utf-8", errors="replace")


def _inode(descriptor: int) -> int:
    import os

    return os.fstat(descriptor).st_ino
