"""A guard that ends PostgreSQL when its supervisor was killed, so that nothing of a deployment outlives it."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

# It waits for the supervisor's pipe to end, leaves the server time to finish, and then makes sure that the data
# directory still belongs to the postmaster that it was told to end: the next start may have been faster.
_SCRIPT = 'read -r _; sleep "$3"; [ "$(head -n 1 "$2")" = "$1" ] && kill -INT "$1"'
_SERVER_SECONDS = 3


class PostgresGuard:
    """One small shell that waits; PostgreSQL itself cannot watch a process that is not its own."""

    def __init__(self, postmaster: int, data: Path, pipe: int) -> None:
        argv = ["/bin/sh", "-c", _SCRIPT, "minions-guard", str(postmaster), str(data / "postmaster.pid")]
        self._shell = subprocess.Popen(
            [*argv, str(_SERVER_SECONDS)],
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._shell.pid

    def stop(self) -> None:
        """Not needed any more: PostgreSQL is stopped in order."""
        with contextlib.suppress(ProcessLookupError):
            self._shell.kill()
        self._shell.wait()
