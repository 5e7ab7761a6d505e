"""One key of a terminal, without Enter."""

from __future__ import annotations

import os
import sys
import termios
import tty


def read_key() -> str:
    """Wait for a key on standard input, a terminal; what was typed before is dropped. Raises KeyboardInterrupt."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        return os.read(descriptor, 1).decode(errors="replace")  # not through a buffer, which might take more
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
