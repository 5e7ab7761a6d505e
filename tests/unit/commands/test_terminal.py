"""What a person at a terminal sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.unit.commands.test_commands import EXECUTOR
from tests.unit.scripted_server import ScriptedServer, completed, scripted_server, task_view

TASK = "/api/v1/tasks/tsk_0000002a"
# Ctrl-C needs a terminal that controls the process; code between fork and exec would not be safe beside threads.
CONTROLLED = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
)
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A command under a pseudo terminal of a given width."""

    def __init__(
        self,
        script: ScriptedServer,
        home: Path,
        columns: int,
        *arguments: str,
        program: tuple[str, ...] = ("-m", "minions.commands.main"),
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        places = {"MINIONS_DATA": str(home), "MINIONS_CONFIG": str(home / "none"), "MINIONS_SERVER": script.url}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CONTROLLED, sys.executable, *program, *arguments],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            env=kept | places | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(follower)
        self.seen = ""

    def read_until(self, wanted: str | None) -> None:
        """Read until this was seen, or with None until the command ends."""
        while wanted is None or wanted not in self.seen:
            try:
                data = os.read(self._leader, 65536)
            except OSError:  # Linux: the other side is closed
                data = b""
            if not data:
                break
            self.seen += data.decode("utf-8", "replace")
        assert wanted is None or wanted in self.seen

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def end(self) -> int:
        self.read_until(None)
        os.close(self._leader)
        return self._process.wait(60)

    @property
    def lines(self) -> list[str]:
        """What was printed, without colours; a line that was drawn over counts by its last state."""
        return [line.rstrip().split("\r")[-1] for line in CODES.sub("", self.seen).split("\n")]


def test_ctrl_c_detaches_and_says_how_to_come_back(tmp_path: Path) -> None:
    with scripted_server() as script:
        script.on("GET", TASK, task_view())
        terminal = Terminal(script, tmp_path, 70, "tasks", "watch", "tsk_0000002a")
        terminal.read_until("━")
        terminal.type("\x03")
        assert terminal.end() == 130
    assert "Come back with:\nminions tasks watch tsk_0000002a" in "\n".join(terminal.lines), "whole, to be copied"
    assert "Traceback" not in terminal.seen
    assert not [request for request in script.requests if request.method != "GET"], "the task is left alone"


def test_the_bar_ends_full(tmp_path: Path) -> None:
    with scripted_server() as script:
        script.on("GET", TASK, task_view(), completed())
        terminal = Terminal(script, tmp_path, 80, "tasks", "watch", "tsk_0000002a")
        assert terminal.end() == 0
    assert any(re.fullmatch(r"passages ━+ 100 %  7 rows  completed", line) for line in terminal.lines)


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    with scripted_server() as script:
        long = task_view(task_name="tickets-" * 7, team="support", waiting=["no executor has 64 GB " * 5])
        script.on("GET", "/api/v1/tasks", {"data": [long, task_view()], "has_more": False})
        executor = EXECUTOR | {"name": "a-very-long-name-of-a-mac" * 3, "reason": "somebody is using this Mac " * 3}
        script.on("GET", "/api/v1/executors", {"data": [executor], "has_more": False})
        script.on("GET", TASK, long)
        for arguments in (["tasks", "ls"], ["executors", "ls"], ["tasks", "show", "tsk_0000002a"]):
            terminal = Terminal(script, tmp_path, columns, *arguments)
            assert terminal.end() == 0
            wide = [line for line in terminal.lines if len(line) > columns]
            assert all("tickets-" * 7 in line and line.count(" ") < 12 for line in wide), "one word, which is not cut"
            if arguments[1] == "ls":
                assert "tsk_0000002a" in terminal.seen or "exe_00000001" in terminal.seen, "ids are never cut"


def test_the_link_that_signs_in_is_never_folded(tmp_path: Path) -> None:
    link = "http://127.0.0.1:7878/sign-in/once?key=" + "k" * 60
    code = f"from minions.commands.output import *; to_stderr('  open    ', {link!r}, indent=10)"
    code += f"; print_sentence(('why   ', 'dim'), 'open {link}', indent=6); print_facts([('page', {link!r})])"
    with scripted_server() as script:
        terminal = Terminal(script, tmp_path, 80, program=("-c", code))
        assert terminal.end() == 0
    assert [link in line for line in terminal.lines if line] == [True, True, True]
