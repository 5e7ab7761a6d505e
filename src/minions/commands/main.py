"""The entry point. It imports next to nothing, so that Ctrl-C is answered quietly from the first moment on."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_INTERRUPTED = 130  # as commands/failures.py, which is not imported yet


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        # No exception: one that strikes amid an import is said with a traceback, whoever catches it.
        signal.signal(signal.SIGINT, _end_quietly)
    from minions.commands import tree

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = tree.exit_code_of(arguments if arguments is not None else sys.argv[1:])
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is done, and the interpreter's own end is quiet as well
    sys.exit(code)


def _end_quietly(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
