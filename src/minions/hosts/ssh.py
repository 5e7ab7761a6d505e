"""How ssh is called, and what its last words mean. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from minions.domain.errors import MinionsError
from minions.hosts.faults import HostNotReady, HostRefuses, HostUnreachable
from minions.hosts.inventory import Host

LOGIN_SECONDS = 15
SSH_FAILED = 255
_NO_PYTHON = 127

_HOMES = ("/opt/homebrew/bin", "/usr/local/bin", "/usr/bin")
_PYTHONS = (
    '"$HOME"/.local/bin/python3.1[1-9]',
    *(f"{home}/python3.1[1-9]" for home in _HOMES),
    '$system "$HOME"/.local/bin/python3 /opt/homebrew/bin/python3 /usr/local/bin/python3',
    '"$HOME"/.local/share/uv/python/cpython-3.1[1-9]*/bin/python3',
)
_UVS = 'uv "$HOME"/.local/bin/uv "$HOME"/.cargo/bin/uv /opt/homebrew/bin/uv /usr/local/bin/uv'
# One line for /bin/sh, without ', \ and !, so that the login shell (fish and tcsh, too) hands it on as it is. Stdin
# brings the interpreter wanted (or nothing), the length of the agent, the agent, and then the requests.
PROGRAM = " ".join(
    (
        "read -r given;",
        'case "$given" in "~/"*) given="$HOME/${given#??}";; esac;',
        'fit() { command -v "$1" >/dev/null 2>&1 &&',
        '"$1" -c "import sys; sys.exit(sys.version_info < (3, $2))" </dev/null >/dev/null 2>&1; };',
        'go() { exec "$@" -I -u -X utf8',
        '-c "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"; };',
        'if [ -n "$given" ]; then if fit "$given" 11; then go "$given"; fi;',
        'echo "minions: $given is no Python 3.11 or later" >&2; exit 127; fi;',
        # Without the command line tools a Mac's own python3 opens a window and waits.
        "system=python3;",
        'if [ "$(uname)" = Darwin ]; then xcode-select -p >/dev/null 2>&1 || system=; fi;',
        f'for p in {" ".join(_PYTHONS)}; do if fit "$p" 11; then go "$p"; fi; done;',
        f'for u in {_UVS}; do if command -v "$u" >/dev/null 2>&1; then',
        'p=$("$u" python find --no-project --system ">=3.11" </dev/null 2>/dev/null);',
        'if fit "$p" 11; then go "$p"; fi;',
        'go "$u" run --no-project --quiet --python ">=3.11" python; fi; done;',
        # An older one can at least say what is missing.
        'for p in $system /usr/bin/python3.9 /usr/bin/python3.10; do if fit "$p" 9; then go "$p"; fi; done;',
        'echo "minions: no Python 3.11 or later, and no uv" >&2; exit 127',
    )
)


def argv(host: Host, tunnel_port: int | None, options: Sequence[str] = ()) -> list[str]:
    """The program that connects us with a shell of the host; for this machine, the shell itself.

    tunnel_port: the port of 127.0.0.1 here that the host shall reach. options: put before ours, such as -F FILE.
    """
    if host.ssh is None:
        return ["/bin/sh", "-c", PROGRAM]
    tunnel = [] if tunnel_port is None else ["-R", f"127.0.0.1:0:127.0.0.1:{tunnel_port}"]
    given = {
        "BatchMode": "yes",
        "ConnectTimeout": str(LOGIN_SECONDS),
        "ExitOnForwardFailure": "yes",
        "ServerAliveInterval": str(max(1, round(host.ping_seconds))),
        "ServerAliveCountMax": "3",
        "LogLevel": "INFO",  # less would hide the port of the tunnel
        # A shared connection would outlive ours, with its tunnel.
        "ControlMaster": "no",
        "ControlPath": "none",
        "RemoteCommand": "none",
    }
    ours = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", *options, "-T", *ours, *tunnel, "--", host.ssh, f"exec /bin/sh -c {shlex.quote(PROGRAM)}"]


def allocated_port(line: str) -> int | None:
    """The port that the host chose for the tunnel, if this line of ssh's stderr tells it."""
    found = re.match(r"Allocated port (\d+) for remote forward to ", line)
    return int(found[1]) if found else None


# What ssh says, what it means, and the way out.
_MEANINGS = (
    (
        "Host key verification failed",
        "its host key is unknown here",
        "`ssh {to}` once by hand, and compare the key",
    ),
    (
        "Permission denied",
        "it accepts none of our keys",
        "`ssh-copy-id {to}`, or `ssh-add` your key; ssh must log in without asking",
    ),
    (
        "Too many authentication failures",
        "it accepts none of our keys",
        "set IdentityFile and IdentitiesOnly for {to} in ~/.ssh/config",
    ),
    ("Bad configuration option", "ssh does not understand its configuration", "correct ~/.ssh/config"),
    ("Bad owner or permissions", "ssh does not trust its configuration", "chmod 600 ~/.ssh/config"),
    ("remote port forwarding failed", "it forwards no ports", "set AllowTcpForwarding yes in its sshd_config"),
    (
        "Could not request local forwarding",
        "a LocalForward of ~/.ssh/config is in use already",
        "end the other ssh, or give the LocalForward to a name of its own",
    ),
)


# Why ssh reaches nothing, and what a person can do.
_UNREACHED = (
    (
        "Could not resolve hostname",
        "correct ssh in [hosts.{name}] of minions.toml, or say its HostName in ~/.ssh/config",
    ),
    ("Connection refused", "turn on its ssh server (on a Mac: Remote Login), or correct its Port in ~/.ssh/config"),
    ("timed out", "see that it is on, awake, and in a network that reaches it"),
    ("not responding", "see that it is on, awake, and in a network that reaches it"),
    ("No route to host", "see that it is on, awake, and in a network that reaches it"),
    ("Network is unreachable", "see that this machine has a network"),
    ("closed by", "see its sshd's log: it may take no more logins for now, or none from here"),
    ("reset by", "see its sshd's log: it may take no more logins for now, or none from here"),
)


def fault(host: Host, code: int | None, stderr: str) -> MinionsError:
    """What it means that the connection ended. code: of ssh, or of this machine's shell; None: we ended it."""
    to = host.ssh or host.name
    said = _last_words(stderr)
    if code == _NO_PYTHON:
        hint = (
            f"Install Python 3.11 or later, or uv, on {host.name}; or set python for hosts.{host.name} in minions.toml."
        )
        return HostNotReady(f"{host.name}: {said.removeprefix('minions: ')}", hint=hint)
    if code == SSH_FAILED:
        if changed := _changed_key(host, stderr):
            return changed
        for words, meaning, way_out in _MEANINGS:
            if words in stderr:
                way = way_out.format(to=to)
                return HostRefuses(f"{host.name}: {meaning} (ssh: {said})", hint=f"{way[0].upper()}{way[1:]}.")
        mend = next((mend for words, mend in _UNREACHED if words in stderr), f"see what `ssh {to}` says")
        return HostUnreachable(f"{host.name}: ssh cannot reach it: {said}", mend=mend.format(name=host.name))
    if code is None:
        return HostUnreachable(f"{host.name}: the connection was silent and was ended")
    return HostUnreachable(f"{host.name}: the connection ended (code {code}): {said}")


def _changed_key(host: Host, stderr: str) -> HostRefuses | None:
    """What to do when the host has another key than it had: the old one must go, once somebody knows why."""
    found = re.search(r"^Host key for (\S+) has changed", stderr, re.MULTILINE)
    if not found:
        return None
    kept = re.search(r"^Offending \S+ key in (.+):\d+$", stderr, re.MULTILINE)
    file = f" -f {shlex.quote(kept[1])}" if kept and not kept[1].endswith("/.ssh/known_hosts") else ""
    remove = f"ssh-keygen{file} -R {shlex.quote(found[1])}"
    hint = f"If it was installed anew, `{remove}`, then `ssh {host.ssh}` once by hand; if not, another answers for it."
    return HostRefuses(f"{host.name}: its host key has changed since it was accepted here", hint=hint)


def _last_words(stderr: str) -> str:
    """The lines that tell why; a banner or a warning before them does not."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Warning: Permanently added", "Allocated port", "@"))]
    return " / ".join(line.rstrip(".") for line in telling[-2:]) or "it said nothing"
