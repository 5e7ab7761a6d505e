"""The parent process: a child that a supervisor started ends when the supervisor does, however that ended."""

from __future__ import annotations

import os
import signal
import threading
import time

_GRACE_SECONDS = 10.0


def end_with_parent(pipe: int, grace_seconds: float = _GRACE_SECONDS) -> None:
    """End this process, as by SIGTERM, when the inherited pipe reaches its end; without mercy after the grace.

    The supervisor keeps the other end open and writes nothing, so the end comes when it is gone, even by SIGKILL.
    Raises OSError when there is no such descriptor.
    """
    os.set_inheritable(pipe, False)
    threading.Thread(target=_watch, args=(pipe, grace_seconds), name="parent", daemon=True).start()


def _watch(pipe: int, grace_seconds: float) -> None:
    while os.read(pipe, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_seconds)
    os.kill(os.getpid(), signal.SIGKILL)
