"""minions executor stop."""

from __future__ import annotations

from minions.commands import services
from minions.commands.executor import commanding, speaking

_STOP_SECONDS = 10.0


def command(state: speaking.State = None) -> None:
    """End the executor that runs on this machine; what it holds goes back to the queue."""
    from minions.commands.output import to_stderr
    from minions.domain.errors import MinionsError

    with services.needing("executor"):
        import psutil

    commands = commanding.found(speaking.state_here(state))
    pid = speaking.executor(state).stop() if commands is None else commands.pid
    try:
        process = psutil.Process(pid)
        if commands is not None:
            process.terminate()
        process.wait(_STOP_SECONDS)
    except psutil.NoSuchProcess:
        pass
    except psutil.TimeoutExpired:
        raise MinionsError(
            f"the executor (process {pid}) was told to end and still runs", hint="Its log: minions executor logs"
        ) from None
    to_stderr("Stopped. What it held went back to the queue.")
