"""One connection: what reaches the host, what comes back, and what is said when it cannot be had."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from minions.domain.errors import MinionsError
from minions.hosts import ssh
from minions.hosts.agent_source import agent_source
from minions.hosts.connection import Connection
from minions.hosts.faults import HostNotReady, HostRefuses, HostUnreachable, RequestFailed
from minions.hosts.inventory import Host
from minions.hosts.link import Link
from tests.services.sshd import Cable, SshHost, ssh_host

WORDS = ["a b", "'", '"', "$HOME", "`id`", "\\", "line\nline", "é 漢", "*", "", "--", "-n", "!x", "\udcff", "a;b|c&"]


async def fault_of(host: Host, mini: SshHost) -> MinionsError:
    with pytest.raises(MinionsError) as raised:
        async with Connection.open(host, options=mini.options):
            pass
    return raised.value


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other processes do; nobody tells us of it."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- there is no event of another user's process
            await asyncio.sleep(0.02)


def sleepers(mini: SshHost) -> int:
    count = 0
    for pid in mini.pids():
        with suppress(OSError):
            count += Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x004321\x00"
    return count


async def test_words_reach_the_program_as_they_are(connection: Connection) -> None:
    done = await connection.run(["/usr/bin/printf", "%s\\0", *WORDS])
    assert done.code == 0, done.stderr
    assert done.stdout.decode(errors="surrogateescape").split("\0")[:-1] == WORDS


async def test_it_is_another_user_at_home_there(connection: Connection, mini: SshHost) -> None:
    assert connection.greeting.home == str(mini.home)
    done = await connection.run(["pwd"])
    assert done.stdout.decode().strip() == str(mini.home)


async def test_stdin_stdout_and_the_exit_code(connection: Connection) -> None:
    body = os.urandom(300_000)
    done = await connection.run(["sh", "-c", "cat; echo oh >&2; exit 3"], body=body)
    assert (done.code, done.stdout, done.stderr) == (3, body, "oh\n")
    empty = await connection.run(["cat"])
    assert (empty.code, empty.stdout) == (0, b"")


async def test_requests_do_not_wait_for_each_other(connection: Connection, place: Path) -> None:
    place.parent.joinpath("fifo").unlink(missing_ok=True)
    os.mkfifo(place.parent / "fifo", 0o666)
    os.chmod(place.parent / "fifo", 0o666)
    waiting = asyncio.create_task(connection.run(["cat", str(place.parent / "fifo")]))
    told = await connection.run(["sh", "-c", f"echo now > {place.parent}/fifo"])
    assert told.code == 0
    assert (await waiting).stdout == b"now\n"


DEAF_CHILD = "(trap '' TERM; exec sleep 4321) & exec sleep 4321"


@pytest.mark.parametrize("script", ["trap '' TERM; sleep 4321 & sleep 4321; sleep 4321", DEAF_CHILD])
async def test_a_program_whose_time_is_over_is_ended_with_its_children(
    connection: Connection, mini: SshHost, script: str
) -> None:
    before = set(mini.pids())
    done = await connection.run(["sh", "-c", script], timeout_seconds=1)
    assert done.late
    await until(lambda: set(mini.pids()) <= before)


async def test_a_program_that_is_not_there(connection: Connection) -> None:
    with pytest.raises(RequestFailed, match="mini: no-such-program is not installed") as raised:
        await connection.run(["no-such-program"])
    assert raised.value.kind == "no_program"


@pytest.mark.parametrize("script", ["sleep 4321 & sleep 4321", DEAF_CHILD])
async def test_nothing_runs_on_when_the_connection_ends(host: Host, mini: SshHost, script: str) -> None:
    before = set(mini.pids())
    async with Connection.open(host, options=mini.options) as connection:
        running = asyncio.create_task(connection.run(["sh", "-c", script]))
        await until(lambda: sleepers(mini) == 2)
        os.kill(connection.pid, signal.SIGKILL)
        assert isinstance(await asyncio.wait_for(connection.lost(), 60), HostUnreachable)
        with pytest.raises(HostUnreachable):
            await running
        with pytest.raises(HostUnreachable):
            await connection.run(["true"])
    await until(lambda: set(mini.pids()) <= before)


async def test_the_tunnel_leads_here(host: Host, mini: SshHost) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello from the coordinator")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        async with Connection.open(host, tunnel_port=port, options=mini.options) as connection:
            assert connection.tunnel_port not in (None, port)
            code = f"import socket; print(socket.create_connection(('127.0.0.1', {connection.tunnel_port})).recv(99))"
            done = await connection.run([connection.greeting.executable, "-c", code])
    assert b"hello from the coordinator" in done.stdout, done.stderr


async def test_a_login_shell_that_prints_and_a_config_that_shares(host: Host, mini: SshHost) -> None:
    config = mini.directory / "ssh_config"
    before = config.read_text()
    config.write_text(f"{before} LogLevel QUIET\n ControlMaster auto\n ControlPath {mini.directory}/shared\n")
    (mini.home / ".ssh").mkdir(exist_ok=True)
    (mini.home / ".ssh" / "rc").write_text("echo welcome; echo to all >&2\n")
    try:
        async with Connection.open(host, tunnel_port=9, options=mini.options) as connection:
            assert connection.tunnel_port
            assert (await connection.run(["echo", "here"])).stdout == b"here\n"
        assert not (mini.directory / "shared").exists()
    finally:
        config.write_text(before)
        (mini.home / ".ssh" / "rc").unlink()


async def test_a_key_that_is_not_accepted(host: Host, mini: SshHost) -> None:
    kept = (mini.directory / "authorized_keys").read_text()
    (mini.directory / "authorized_keys").write_text("")
    try:
        fault = await fault_of(host, mini)
    finally:
        (mini.directory / "authorized_keys").write_text(kept)
    assert isinstance(fault, HostRefuses)
    assert "accepts none of our keys" in fault.message
    assert "Permission denied" in fault.message
    assert "ssh-copy-id mini" in fault.advice


async def test_a_host_key_that_is_unknown(host: Host, mini: SshHost) -> None:
    kept = (mini.directory / "known_hosts").read_text()
    (mini.directory / "known_hosts").write_text("")
    try:
        fault = await fault_of(host, mini)
    finally:
        (mini.directory / "known_hosts").write_text(kept)
    assert isinstance(fault, HostRefuses)
    assert "host key is unknown here" in fault.message
    assert "`ssh mini` once by hand" in fault.advice


async def test_a_port_where_nobody_listens(host: Host) -> None:
    with ssh_host("mini") as away:
        away.stop()
        fault = await fault_of(host, away)
    assert isinstance(fault, HostUnreachable)
    assert "Connection refused" in fault.message


async def test_a_host_that_forwards_no_ports(host: Host) -> None:
    with ssh_host("mini", AllowTcpForwarding="no") as strict, pytest.raises(HostRefuses, match="forwards no ports"):
        async with Connection.open(host, tunnel_port=9, options=strict.options):
            pass


async def test_a_python_that_is_none(host: Host, mini: SshHost) -> None:
    fault = await fault_of(replace(host, python="/bin/false"), mini)
    assert isinstance(fault, HostNotReady)
    assert "mini: /bin/false is no Python 3.11 or later" in fault.message
    assert "set python for hosts.mini" in fault.advice


async def test_this_machine_is_a_host_like_any() -> None:
    async with Connection.open(Host("local"), tunnel_port=1234) as connection:
        assert connection.tunnel_port == 1234
        assert (await connection.run(["printf", "%s", "a 'b"])).stdout == b"a 'b"


async def test_a_cut_cable_is_noticed_and_mended(cable: Cable) -> None:
    with ssh_host("mini", cable=cable) as far:
        connections: list[Connection] = []
        faults: list[MinionsError] = []
        lost = asyncio.Event()

        async def on_connected(connection: Connection) -> None:
            connections.append(connection)

        def on_lost(fault: MinionsError) -> None:
            faults.append(fault)
            lost.set()

        link = Link(
            Host("mini", ssh="mini", silence_seconds=2),
            asyncio.Semaphore(1),
            options=far.options,
            on_connected=on_connected,
            on_lost=on_lost,
            pause=lambda failed, chance: 0.2,
        )
        async with link.kept():
            first = await asyncio.wait_for(link.connected(), 60)
            cable.cut()
            await asyncio.wait_for(lost.wait(), 60)
            assert link.connection is None
            assert re.search("was silent|not responding", faults[0].message), "by us, or by ssh, which looks as well"
            cable.mend()
            second = await asyncio.wait_for(link.connected(), 60)
            assert second is not first
            assert (await second.run(["echo", "again"])).stdout == b"again\n"
            assert connections == [first, second]


async def test_hosts_behind_one_sshd_do_not_log_in_all_at_once() -> None:
    """Six at once meet its MaxStartups; two at a time do not."""
    faults: list[MinionsError] = []

    async def on_connected(connection: Connection) -> None:
        assert (await connection.run(["true"])).code == 0

    logins = asyncio.Semaphore(2)
    with ssh_host("mini", MaxStartups="3:100:3") as strict:
        async with AsyncExitStack() as stack:
            links = [
                Link(
                    Host(f"host{number}", ssh="mini"),
                    logins,
                    options=strict.options,
                    on_connected=on_connected,
                    on_lost=faults.append,
                )
                for number in range(6)
            ]
            for link in links:
                await stack.enter_async_context(link.kept())
            async with asyncio.timeout(60):
                connections = [await link.connected() for link in links]
            assert [connection.host.name for connection in connections] == [f"host{number}" for number in range(6)]
            assert faults == []


async def test_an_agent_that_hears_nothing_ends_itself() -> None:
    source = agent_source().replace(b"_SILENCE_SECONDS = 90.0", b"_SILENCE_SECONDS = 0.3")
    assert source != agent_source()
    process = await asyncio.create_subprocess_exec(
        *ssh.argv(Host("local"), None), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"\n%d\n%b" % (len(source), source))
    async with asyncio.timeout(60):
        assert await process.wait() == 0
