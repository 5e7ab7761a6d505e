"""One key of a terminal, without Enter."""

from __future__ import annotations

import sys
import termios
import tty


def read_key() -> str:
    """Wait for a key on standard input, which must be a terminal. Raises KeyboardInterrupt for Ctrl-C."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
