"""minions executor start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minions.commands.executor import speaking

if TYPE_CHECKING:
    from minions.executor.control.client import ControlClient

_START_SECONDS = 30.0
_LOOK_SECONDS = 0.3


def command() -> None:
    """Start the executor that is installed as a service on this machine."""
    import subprocess
    import sys

    from minions.commands.output import to_stderr
    from minions.domain.errors import MinionsError, NotFound
    from minions.executor.control.client import ControlClient
    from minions.executor.service import start_command

    argv = start_command(sys.platform)
    if argv is None:
        raise NotFound(
            "no executor is installed as a service on this machine",
            hint="`minions executor` runs one in this terminal.",
        )
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise MinionsError(
            f"{argv[0]} could not start it: {done.stderr.strip() or f'exit code {done.returncode}'}",
            hint="`minions executor doctor` looks for the cause.",
        )
    state = speaking.places(speaking.installed_flags(), None, None, None).state
    to_stderr(first_sentence(ControlClient(state), _START_SECONDS))


def first_sentence(executor: ControlClient, seconds: float) -> str:
    """What the executor says once it is there."""
    import time

    from minions.domain.errors import MinionsError

    deadline = time.monotonic() + seconds
    while True:
        try:
            return executor.status().sentence
        except MinionsError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_LOOK_SECONDS)
