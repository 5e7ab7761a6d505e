"""What is said of a host: in one line, with what is missing and how to mend it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minions.hosts.agent.login import ends_with_session
from minions.hosts.check import Finding, HostFacts, Verdict, describe, findings, parse_facts
from minions.hosts.inventory import Host

MAC: dict[str, Any] = {
    "system": "Darwin",
    "release": "15.1",
    "chip": "Apple M2",
    "processors": 8,
    "python": [3, 12, 4],
    "tools": {"git": "git version 2.39.5 (Apple Git-154)", "uv": "uv 0.9.1 (abc 2026-01-01)", "npm": None},
    "disk_free_bytes": 120_400_000_000,
    "writable": True,
    "clock": 0.0,
}
FACTS: HostFacts = parse_facts(MAC, machine="arm64", clock_seconds=0.04)


def test_a_host_that_is_ready_in_one_line() -> None:
    verdict = Verdict(Host("mini", ssh="mini"), FACTS, tuple(findings(FACTS, ["git", "uv"])))
    assert verdict.is_ready
    assert verdict.line == (
        "mini: ready · macOS 15.1, Apple M2 · Python 3.12.4 · git 2.39.5 · uv 0.9.1 · 120.4 GB free · clock +0.0 s"
    )


@pytest.mark.parametrize(
    ("facts", "needs", "said", "mend", "serious"),
    [
        (replace(FACTS, python=(3, 9, 6)), [], "Python 3.9.6 is too old", "Python 3.11", True),
        (FACTS, ["npm"], "npm is missing", "Node.js", True),
        (replace(FACTS, writable=False), [], "cannot be written", "state", True),
        (replace(FACTS, disk_free_bytes=2**20), [], "only 0.0 GB free", "space", False),
        (replace(FACTS, disk_free_bytes=2**20, kept_bytes=3 * 10**9), [], "GB free", "Minions keeps 3.0 GB", False),
        (replace(FACTS, ends_with_session=True), [], "KillUserProcesses=yes", "KillExcludeUsers=", False),
        (replace(FACTS, clock_seconds=-61.0), [], "its clock is 61 s behind of ours", "network time", False),
    ],
)
def test_what_is_missing_and_how_to_mend_it(
    facts: HostFacts, needs: list[str], said: str, mend: str, serious: bool
) -> None:
    (found,) = findings(facts, needs)
    assert said in found.text
    assert mend in found.mend
    assert found.serious is serious
    assert Verdict(Host("mini"), facts, (found,)).is_ready is not serious


def test_what_is_kept_for_runs_is_told() -> None:
    assert " · 120.4 GB free, 1.2 GB kept for runs · " in describe(replace(FACTS, kept_bytes=1_230_000_000))


SESSION = "0::/user.slice/user-1000.slice/session-7.scope\n"
SPARED = 'as 1 "root"'


@pytest.mark.parametrize(
    ("cgroup", "said", "ends"),
    [
        (SESSION, f"b true\nas 0\n{SPARED}\n", True),
        (SESSION, f"b false\nas 0\n{SPARED}\n", False),
        (SESSION, 'b true\nas 0\nas 2 "root" "me"\n', False),
        (SESSION, f'b true\nas 1 "me"\n{SPARED}\n', True),
        (SESSION, f'b true\nas 1 "other"\n{SPARED}\n', False),
        (SESSION, "", None),
        (SESSION, None, None),
        ("0::/system.slice/ssh.service\n", f"b true\nas 0\n{SPARED}\n", False),
    ],
)
def test_whether_logind_ends_what_a_connection_started(cgroup: str, said: str | None, ends: bool | None) -> None:
    assert ends_with_session(cgroup, said, "me") is ends


def test_what_the_project_does_not_need_is_not_missed() -> None:
    assert findings(FACTS, ["git"]) == []


def test_a_host_that_cannot_be_reached() -> None:
    verdict = Verdict(Host("mini"), None, (Finding("ssh cannot reach it: no route", "Wake it."),))
    assert not verdict.is_ready
    assert verdict.line == "mini: not ready · ssh cannot reach it: no route (Wake it.)"
