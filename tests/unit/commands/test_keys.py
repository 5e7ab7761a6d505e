"""One key of a terminal, on a terminal."""

from __future__ import annotations

import os
import pty
import termios
import threading
import time

import pytest

from minions.commands.keys import read_key


def test_a_key_is_read_without_enter_and_the_terminal_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    person, terminal = pty.openpty()

    def press() -> None:
        """Once the terminal waits for keys and no more for lines: what is typed before is dropped."""
        while termios.tcgetattr(terminal)[3] & termios.ICANON:
            time.sleep(0.01)
        os.write(person, b"d")

    with os.fdopen(terminal, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        before = termios.tcgetattr(terminal)
        pressing = threading.Thread(target=press)
        pressing.start()
        assert read_key() == "d"
        pressing.join()
        assert termios.tcgetattr(terminal) == before
    os.close(person)
