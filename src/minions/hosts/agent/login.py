"""Whether what is started on this host lives on when its connection ends: as systemd's logind is set."""

from __future__ import annotations

import getpass
import re
import subprocess

_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_PROPERTIES = ("KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers")
_ANSWER_SECONDS = 10


def ends_with_session(cgroup: str, said: str | None, user: str) -> bool | None:
    """Whether logind ends what a session has started when it ends. None: it cannot be told.

    cgroup: /proc/self/cgroup; a process that is in no session's scope is left alone. said: the values of the three
    properties, a line each, as busctl writes them.
    """
    if not re.search(r"/session-[^/\n]*\.scope", cgroup):
        return False
    lines = said.splitlines() if said is not None else []
    if len(lines) != len(_PROPERTIES) or lines[0] not in ("b true", "b false"):
        return None
    only, spared = (re.findall(r'"([^"]*)"', line) for line in lines[1:])
    return lines[0] == "b true" and user not in spared and (not only or user in only)


def read_ends_with_session() -> bool | None:
    """The same of this process."""
    try:
        with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:
            cgroup = file.read()
    except OSError:  # no Linux, so no logind
        return False
    argv = ["busctl", "get-property", *_LOGIND, *_PROPERTIES]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ends_with_session(cgroup, None, "")
    return ends_with_session(cgroup, done.stdout.decode("utf-8", "replace"), getpass.getuser())
