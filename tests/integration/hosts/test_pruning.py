"""What was made on a host for earlier commits is removed, but nothing that somebody uses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from minions.hosts.checkout import Checkout, check_out
from minions.hosts.connection import Connection
from minions.hosts.dependencies import install
from minions.hosts.inventory import Host
from minions.hosts.pruning import prune
from tests.integration.hosts.holding import hold
from tests.integration.hosts.projects import commit
from tests.integration.hosts.with_uv import with_uv
from tests.services.sshd import SshHost

EMPTY = "--hash=sha256:" + "0" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project"


@pytest.fixture
def host(host: Host, mini: SshHost) -> Host:
    return replace(with_uv(host, mini), keep=2)


async def made(connection: Connection, root: Path, number: int, requirements: str = "") -> Checkout:
    """A commit on the host, with an environment if requirements are given. They name nothing, so nothing is fetched."""
    files: dict[str, str | bytes] = {"file": str(number)}
    if requirements:
        files["requirements.txt"] = f"# {requirements} {EMPTY}\n"
    checkout = await check_out(connection, root, commit(root, files))
    await install(connection, checkout)
    return checkout


async def names(connection: Connection, home: str, kind: str) -> list[str]:
    entries = (await connection.request("entries", {"path": f"{home}/{kind}"}))[0]["entries"]
    return [name for name, about in entries.items() if about["kind"] == "directory"]


def home_of(checkout: Checkout) -> str:
    return checkout.directory.rpartition("/worktrees/")[0]


async def test_worktrees_used_longest_ago_go_unless_one_runs_there(connection: Connection, root: Path) -> None:
    first = await made(connection, root, 0)
    let_go = await hold(connection, first.lock)
    others = [await made(connection, root, number) for number in range(1, 4)]
    assert await prune(connection, others[-1]) == [f"worktree {others[0].commit[:12]}"]
    kept = sorted(each.commit for each in (first, *others[1:]))
    assert await names(connection, home_of(first), "worktrees") == kept
    await let_go()
    assert await prune(connection, others[-1]) == [f"worktree {first.commit[:12]}"]
    assert await prune(connection, others[-1]) == []
    left = (await connection.run(["ls", "-A", f"{home_of(first)}/worktrees"])).stdout.decode().split()
    assert {name[:40] for name in left} == {each.commit for each in others[1:]}, "logs and marks went as well"
    again = await check_out(connection, root, first.commit)
    assert again.made


async def test_one_that_is_used_again_is_kept(connection: Connection, root: Path) -> None:
    checkouts = [await made(connection, root, number) for number in range(2)]
    again = await check_out(connection, root, checkouts[0].commit)
    assert not again.made
    newest = await made(connection, root, 2)
    assert await prune(connection, newest) == [f"worktree {checkouts[1].commit[:12]}"]


async def test_environments_go_when_no_worktree_needs_them(connection: Connection, root: Path) -> None:
    checkouts = [await made(connection, root, number, f"lock-{number}") for number in range(3)]
    home = home_of(checkouts[0])
    before = await names(connection, home, "environments")
    assert len(before) == 3
    let_go = await hold(connection, checkouts[0].lock)
    assert await prune(connection, checkouts[2]) == []
    await let_go()
    removed = await prune(connection, checkouts[2])
    (gone,) = set(before) - set(await names(connection, home, "environments"))
    assert removed == [f"worktree {checkouts[0].commit[:12]}", f"environment {gone}"]
    left = (await connection.run(["ls", "-A", f"{home}/environments"])).stdout.decode().split()
    assert not [name for name in left if name.startswith((gone, ".old-"))], "with its log and its lock"
    for checkout in checkouts[1:]:
        assert (await install(connection, checkout)).installed == ()


async def test_an_environment_that_somebody_installs_into_stays(connection: Connection, root: Path) -> None:
    checkouts = [await made(connection, root, number, f"lock-{number}") for number in range(3)]
    place = (await install(connection, checkouts[0])).variables["VIRTUAL_ENV"]
    for checkout in checkouts[1:]:
        await install(connection, checkout)
    let_go = await hold(connection, f"{place}.lock")
    removed = await prune(connection, checkouts[2])
    assert removed == [f"worktree {checkouts[0].commit[:12]}"]
    assert os.path.basename(place) in await names(connection, home_of(checkouts[0]), "environments")
    await let_go()
    assert await prune(connection, checkouts[2]) == [f"environment {os.path.basename(place)}"]


async def test_what_was_left_half_removed_goes_later(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, 0)
    place = f"{home_of(checkout)}/worktrees/.old-left"
    await connection.run(["sh", "-c", 'mkdir -p "$0/x" && touch -d "2 hours ago" "$0"', place])
    fresh = f"{home_of(checkout)}/worktrees/.new-fresh"
    await connection.run(["mkdir", fresh])
    assert await prune(connection, checkout) == ["worktree .old-left"]
    assert ".new-fresh" in await names(connection, home_of(checkout), "worktrees")
