"""How ssh is called, and what its last words mean."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from minions.hosts import agent
from minions.hosts.agent_source import agent_source
from minions.hosts.faults import HostNotReady, HostRefuses, HostUnreachable
from minions.hosts.inventory import Host
from minions.hosts.link import pause_seconds
from minions.hosts.ssh import PROGRAM, allocated_port, argv, fault

MINI = Host("mini", ssh="me@compute-mini")


def test_nothing_in_the_program_means_something_to_a_login_shell() -> None:
    assert not set("'\\!\n") & set(PROGRAM)
    assert subprocess.run(["/bin/sh", "-n", "-c", PROGRAM], check=False).returncode == 0


def test_the_tunnel_and_the_options() -> None:
    words = argv(MINI, 7878, ["-F", "a file"])
    assert words[:3] == ["ssh", "-F", "a file"]
    assert words[words.index("-R") + 1] == "127.0.0.1:0:127.0.0.1:7878"
    assert words[-3:-1] == ["--", "me@compute-mini"]
    assert words[-1] == f"exec /bin/sh -c '{PROGRAM}'"
    assert "-R" not in argv(MINI, None)
    assert "ServerAliveInterval=15" in words
    assert "ServerAliveInterval=2" in argv(replace(MINI, silence_seconds=5.0), 7878)
    assert argv(Host("local"), 7878) == ["/bin/sh", "-c", PROGRAM]


def test_the_port_of_the_tunnel() -> None:
    assert allocated_port("Allocated port 40123 for remote forward to 127.0.0.1:7878") == 40123
    assert allocated_port("debug1: Allocated port 40123 for remote forward") is None


CHANGED = """@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Offending ED25519 key in /h/.ssh/known_hosts:3
Host key for [10.0.0.2]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("code", "stderr", "kind", "said", "hint"),
    [
        (255, "x: Permission denied (publickey).", HostRefuses, "accepts none of our keys", "ssh-copy-id me@compute"),
        (255, "No ED25519 host key is known\nHost key verification failed.", HostRefuses, "is unknown here", "by hand"),
        (255, CHANGED, HostRefuses, "has changed", "`ssh-keygen -R '[10.0.0.2]:2222'`"),
        (255, CHANGED.replace(".ssh/k", "k"), HostRefuses, "changed", "`ssh-keygen -f /h/known_hosts -R '[10.0.0.2]"),
        (255, "Connection closed by remote host.", HostUnreachable, "by remote host", "again"),
        (255, "Error: remote port forwarding failed for listen port 0", HostRefuses, "forwards no ports", "AllowTcp"),
        (255, "ssh: connect to host a port 22: Connection refused", HostUnreachable, "Connection refused", "again"),
        (255, "ssh: Could not resolve hostname a", HostUnreachable, "Could not resolve", "again"),
        (255, "Warning: Permanently added 'a'\nTimeout, server a not responding.", HostUnreachable, "Timeout", ""),
        (255, "", HostUnreachable, "it said nothing", ""),
        (127, "minions: no Python 3.11 or later, and no uv", HostNotReady, "mini: no Python 3.11", "hosts.mini"),
        (1, "Segmentation fault", HostUnreachable, "ended (code 1): Segmentation fault", ""),
        (None, "", HostUnreachable, "silent", ""),
    ],
)
def test_what_the_end_of_ssh_means(code: int | None, stderr: str, kind: type, said: str, hint: str) -> None:
    error = fault(MINI, code, stderr)
    assert type(error) is kind
    assert error.message.startswith("mini: ")
    assert said in error.message
    assert hint in error.advice
    assert not error.message.endswith(".")


@pytest.mark.parametrize(
    ("stderr", "mend"),
    [
        ("ssh: Could not resolve hostname x: Name or service not known", "[hosts.mini]"),
        ("ssh: connect to host a port 22: Connection refused", "Remote Login"),
        ("ssh: connect to host a port 22: Operation timed out", "awake"),
        ("Connection closed by remote host.", "sshd's log"),
        ("something new", "`ssh me@compute-mini`"),
    ],
)
def test_a_person_is_told_what_to_do_about_a_host_that_is_not_reached(stderr: str, mend: str) -> None:
    error = fault(MINI, 255, stderr)
    assert isinstance(error, HostUnreachable)
    assert mend in error.mend


def test_the_agent_is_understood_by_an_old_python() -> None:
    """A Mac's own python3 is 3.9; it must at least be able to say so."""
    for path in Path(agent.__file__).parent.glob("*.py"):
        ast.parse(path.read_bytes(), feature_version=(3, 9))
    assert all(path.stem.encode() in agent_source() for path in Path(agent.__file__).parent.glob("[a-z]*.py"))


def test_pauses_grow_to_a_bound_and_are_spread() -> None:
    longest = [pause_seconds(failed, 0.999) for failed in range(1, 20)]
    assert longest == sorted(longest)
    assert longest[0] < 1.01
    assert 59 < longest[-1] <= 60
    assert pause_seconds(5, 0.0) < pause_seconds(5, 0.9)
