"""`hosts check` on a real host: what is read of it, and one that cannot be reached."""

from __future__ import annotations

import time
from dataclasses import replace

from minions.hosts.check import check
from minions.hosts.connection import Connection
from minions.hosts.inventory import Host
from tests.services.sshd import SshHost, ssh_host


async def test_a_host_is_looked_at(host: Host, mini: SshHost) -> None:
    verdict = await check(host, options=mini.options, tunnel_port=9)
    assert verdict.is_ready, verdict.line
    assert verdict.facts is not None
    assert verdict.facts.tools["git"]
    assert verdict.facts.disk_free_bytes > 0
    assert abs(verdict.facts.clock_seconds) < 2
    assert verdict.line.startswith("mini: ready · Linux ")


async def test_what_runs_keep_on_the_disk_is_counted_once(host: Host, mini: SshHost, connection: Connection) -> None:
    host = replace(host, state="~/kept")
    script = "cd kept/projects/x && head -c 3000000 /dev/urandom > a && ln a b"
    await connection.run(["sh", "-c", f"mkdir -p kept/projects/x && {script}"])
    verdict = await check(host, options=mini.options)
    assert verdict.facts is not None
    assert verdict.facts.kept_bytes is not None
    assert 3_000_000 <= verdict.facts.kept_bytes < 3_200_000
    assert verdict.facts.ends_with_session is not None


async def test_what_the_project_needs_and_the_host_lacks(host: Host, mini: SshHost) -> None:
    verdict = await check(host, needs=("git", "poetry"), options=mini.options)
    assert not verdict.is_ready
    assert [finding.text for finding in verdict.findings] == ["poetry is missing"]
    assert "install poetry" in verdict.line


async def test_a_state_directory_that_cannot_be_made(host: Host, mini: SshHost) -> None:
    verdict = await check(replace(host, state="/etc/minions-state"), options=mini.options)
    assert [finding.text for finding in verdict.findings] == ["its state directory cannot be written"]


async def test_a_host_that_is_away_says_so_soon(host: Host) -> None:
    with ssh_host("mini") as away:
        away.stop()
        began = time.monotonic()
        verdict = await check(host, options=away.options)
        assert time.monotonic() - began < 15
    assert verdict.facts is None
    assert verdict.line.startswith("mini: not ready · ssh cannot reach it: ")
    assert "Connection refused" in verdict.line
    assert "Remote Login" in verdict.line
    assert "hosts check" not in verdict.line
