"""Signals: how a process that serves until it is told to stop, stops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT)


def run_until_stopped(
    work: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Run it to its end, or until SIGTERM or SIGINT, which unwind it: its `finally` blocks run. Returns either way.

    Work that has handlers of its own for the two signals decides itself how it ends.
    """
    before = {each: signal.signal(each, _stop) for each in STOPPING}
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(work)
    except _Stopped:
        pass
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _Stopped(SystemExit):
    """Raised where the signal finds the process: event loops end at once on SystemExit, and then cancel their tasks."""


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # who asks twice does not want to wait for the unwinding
    raise _Stopped(0)
