"""The hosts of these tests: what is theirs is ended with them, and nothing else ever is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from minions.hosts.connection import Connection
from minions.hosts.inventory import Host
from tests.services import sshd
from tests.services.sshd import SshHost


async def test_what_runs_on_a_host_is_known_and_nothing_else_is(
    host: Host, mini: SshHost, connection: Connection
) -> None:
    done = await connection.run(["sh", "-c", "echo $PPID"])
    agent = int(done.stdout)
    assert agent in mini.pids()
    by_home = replace(mini, uid=None)
    assert agent in by_home.pids()
    for found in (mini, by_home):
        assert not {1, os.getpid(), os.getppid(), connection.pid} & set(found.pids())


def test_without_a_user_of_its_own_nothing_goes_by_uid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with sshd._user(tmp_path, tmp_path / "home") as (_, uid):  # pyright: ignore[reportPrivateUsage] -- the guard itself
        assert uid is None
        alone = SshHost("mini", tmp_path, "minions-test-like", uid, tmp_path / "home", "127.0.0.1", 1)
        assert alone.pids() == []
