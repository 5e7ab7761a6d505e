"""minions hosts check."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options
from minions.domain.errors import NotFound

if TYPE_CHECKING:
    from minions.hosts.check import Verdict
    from minions.hosts.inventory import Host

_TOOL_OF = {"uv.lock": "uv", "poetry.lock": "poetry", "package-lock.json": "npm"}


def command(
    name: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Default: all of minions.toml.")] = None,
    json: options.Json = False,
) -> None:
    """Connect to each host and look: what it is, what is missing, and how to mend it. Exit code 1: one is not ready."""
    from minions.commands.failures import ERROR
    from minions.commands.output import print_json, to_stdout
    from minions.commands.project import here
    from minions.hosts.host_keeper import in_project

    directory = here()
    hosts = [in_project(host, directory) for host in chosen_hosts(directory.root, name or [])]
    verdicts = asyncio.run(_check(hosts, needed_tools(directory.root)))
    if json:
        print_json({"data": [_document(verdict) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            to_stdout(verdict.line)
    if not all(verdict.is_ready for verdict in verdicts):
        raise typer.Exit(ERROR)


def chosen_hosts(root: Path, names: list[str]) -> list[Host]:
    """The hosts of these names, all without one. Raises NotFound."""
    from minions.hosts.project_file import read_hosts

    hosts = {host.name: host for host in read_hosts(root)}
    for name in names:
        if name not in hosts:
            raise NotFound(f"minions.toml names no host {name!r}", hint=f"It names {', '.join(hosts)}.")
    return [hosts[name] for name in names or hosts]


def needed_tools(root: Path) -> list[str]:
    """What hosts need for the lock files of the project."""
    return ["git", *(tool for file, tool in _TOOL_OF.items() if (root / file).exists())]


async def _check(hosts: list[Host], needs: list[str]) -> list[Verdict]:
    from minions.hosts.check import check

    with socket.create_server(("127.0.0.1", 0)) as listening:  # a tunnel needs an end, to see that it can be made
        port = listening.getsockname()[1]
        return await asyncio.gather(*(check(host, needs=needs, tunnel_port=port) for host in hosts))


def _document(verdict: Verdict) -> dict[str, object]:
    from dataclasses import asdict

    facts = None if verdict.facts is None else asdict(verdict.facts)
    findings = [asdict(finding) for finding in verdict.findings]
    return {"name": verdict.host.name, "ready": verdict.is_ready, "facts": facts, "findings": findings}
