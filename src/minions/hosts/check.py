"""What `minions hosts check` says of a host: what it is, what is missing, and how to mend it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minions.domain.errors import MinionsError
from minions.hosts.connection import Connection
from minions.hosts.faults import HostUnreachable
from minions.hosts.inventory import Host

LEAST_DISK_BYTES = 1 << 30
MOST_CLOCK_SECONDS = 5.0
TOOLS = ("git", "uv", "npm", "poetry")
_OLDEST_PYTHON = (3, 11)
_MENDING = {
    "git": "install git; on a Mac: xcode-select --install",
    "uv": "install uv, https://docs.astral.sh/uv/",
    "npm": "install Node.js",
    "poetry": "install poetry, https://python-poetry.org/",
}
_SYSTEMS = {"Darwin": "macOS"}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What was read of a host. clock_seconds: how far its clock is ahead of ours. kept_bytes: what worktrees and
    environments of runs take. ends_with_session: what is started there ends with the connection. None: it cannot be
    told."""

    system: str
    release: str
    machine: str
    chip: str | None
    processors: int | None
    python: tuple[int, ...]
    tools: Mapping[str, str | None]
    disk_free_bytes: int
    writable: bool
    clock_seconds: float
    kept_bytes: int | None = None
    ends_with_session: bool | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. serious: without it nothing runs there."""

    text: str
    mend: str
    serious: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """One host. facts: None when it cannot be reached; then the one finding says why."""

    host: Host
    facts: HostFacts | None
    findings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        return self.facts is not None and not any(finding.serious for finding in self.findings)

    @property
    def line(self) -> str:
        """All of it in one line."""
        parts = [describe(self.facts)] if self.facts else []
        parts += [f"{finding.text} ({finding.mend})" if finding.mend else finding.text for finding in self.findings]
        return f"{self.host.name}: {'ready' if self.is_ready else 'not ready'} · {' · '.join(parts)}"


async def check(
    host: Host, *, needs: Collection[str] = ("git",), tunnel_port: int | None = None, options: Sequence[str] = ()
) -> Verdict:
    """Connect to the host and look. needs: the tools that the project needs there, of TOOLS."""
    try:
        async with Connection.open(host, tunnel_port=tunnel_port, options=options) as connection:
            facts = await read_facts(connection)
    except MinionsError as error:
        mend = (error.mend if isinstance(error, HostUnreachable) else error.advice).rstrip(".")
        return Verdict(host, None, (Finding(error.message.removeprefix(f"{host.name}: "), mend),))
    return Verdict(host, facts, tuple(findings(facts, needs)))


async def read_facts(connection: Connection) -> HostFacts:
    """What the host is like now; its clock against ours in the middle of the question."""
    host = connection.host
    began = time.time()
    _ = await connection.request("ping", {})
    pinged = await connection.request("ping", {})
    ended = time.time()
    asked = {"place": host.state, "tools": list(TOOLS), "path": list(host.path), "kept": f"{host.state}/projects"}
    reply, _ = await connection.request("facts", asked)
    return parse_facts(
        {**reply, "python": connection.greeting.python, "system": connection.greeting.system},
        machine=connection.greeting.machine,
        clock_seconds=float(pinged[0]["clock"]) - (began + 3 * ended) / 4,
    )


def parse_facts(reply: Mapping[str, Any], *, machine: str, clock_seconds: float) -> HostFacts:
    """The answer of the agent as a value."""
    return HostFacts(
        system=str(reply["system"]),
        release=str(reply["release"]),
        machine=machine,
        chip=reply["chip"],
        processors=reply["processors"],
        python=tuple(cast("Sequence[int]", reply["python"])),
        tools=dict(reply["tools"]),
        disk_free_bytes=int(reply["disk_free_bytes"]),
        writable=bool(reply["writable"]),
        clock_seconds=clock_seconds,
        kept_bytes=reply.get("kept_bytes"),
        ends_with_session=reply.get("ends_with_session"),
    )


def findings(facts: HostFacts, needs: Collection[str]) -> list[Finding]:
    """What is missing or doubtful, each with the way to mend it."""
    found: list[Finding] = []
    if facts.python < _OLDEST_PYTHON:
        version = ".".join(map(str, facts.python))
        found.append(Finding(f"Python {version} is too old", "install Python 3.11 or later, or uv"))
    found += [
        Finding(f"{tool} is missing", _MENDING.get(tool, f"install {tool}"))
        for tool in TOOLS
        if tool in needs and facts.tools.get(tool) is None
    ]
    if not facts.writable:
        found.append(Finding("its state directory cannot be written", "set state in minions.toml to another place"))
    if facts.disk_free_bytes < LEAST_DISK_BYTES:
        kept = f"; Minions keeps {_gigabytes(facts.kept_bytes)}, see keep in minions.toml" if facts.kept_bytes else ""
        text = f"only {_gigabytes(facts.disk_free_bytes)} free"
        found.append(Finding(text, f"free some space{kept}", serious=False))
    if facts.ends_with_session:
        found.append(
            Finding(
                "what runs here is ended when the connection ends (KillUserProcesses=yes)",
                "set KillUserProcesses=no, or the user in KillExcludeUsers=, in /etc/systemd/logind.conf, and restart "
                "systemd-logind; lingering alone does not help",
                serious=False,
            )
        )
    if abs(facts.clock_seconds) > MOST_CLOCK_SECONDS:
        direction = "ahead" if facts.clock_seconds > 0 else "behind"
        text = f"its clock is {abs(facts.clock_seconds):.0f} s {direction} of ours"
        found.append(Finding(text, "turn on network time; Minions itself goes by the server's clock", serious=False))
    return found


def describe(facts: HostFacts) -> str:
    """`macOS 15.1, Apple M2 · Python 3.12.4 · git 2.39.5 · 120.4 GB free, 1.2 GB kept for runs · clock +0.0 s`."""
    system = f"{_SYSTEMS.get(facts.system, facts.system)} {facts.release}, {facts.chip or facts.machine}"
    tools = [f"{name} {_version(said)}" for name, said in facts.tools.items() if said]
    python = f"Python {'.'.join(map(str, facts.python))}"
    clock = f"clock {facts.clock_seconds:+.1f} s"
    kept = f", {_gigabytes(facts.kept_bytes)} kept for runs" if facts.kept_bytes else ""
    return " · ".join([system, python, *tools, f"{_gigabytes(facts.disk_free_bytes)} free{kept}", clock])


def _version(said: str) -> str:
    """The first word with a digit in front: `git version 2.39.5` and `uv 0.4.1 (…)` alike."""
    return next((word.strip("()v") for word in said.split() if word.strip("()v")[:1].isdigit()), said)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
