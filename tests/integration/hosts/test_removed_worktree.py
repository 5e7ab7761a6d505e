"""The worktree of a run that goes on, removed by another run on the same host while nothing ran there."""

from __future__ import annotations

from pathlib import Path

import pytest

from minions.executor.commands.standing import read_standing
from minions.runtime.locks import lock_holder
from tests.integration.hosts.own_project import OwnProject, wait_until
from tests.integration.hosts.projects import commit, run_git

pytestmark = pytest.mark.timeout(300)


def test_a_worktree_that_another_clone_has_removed_is_made_again(tmp_path: Path) -> None:
    wait, state = tmp_path / "wait", tmp_path / "state"
    first, second = OwnProject(tmp_path / "first"), OwnProject(tmp_path / "second" / "clone")
    shared = f'keep = 1\nstate = "{state}"\n'
    try:
        first.make(more={"WAIT": str(wait)})
        first.configure(more={"WAIT": str(wait)}, hosts=shared)
        wait.touch()
        run = first.start("run")
        wait_until(lambda: len(list(tmp_path.glob("wait.*"))) == 2)
        (lock,) = state.glob("executors/*/executor.lock")
        assert first.minions("hosts", "drain", "local").returncode == 0
        wait_until(lambda: (now := read_standing(lock.parent)) is not None and now.state == "stopping")
        wait.unlink()
        wait_until(lambda: lock_holder(lock) is None and first.output(1).exists())

        second.root.parent.mkdir()
        run_git(tmp_path, "clone", "--quiet", str(first.root), str(second.root))
        commit(second.root, {"file": "another commit"})
        second.configure(hosts=shared)
        other = second.minions("run")
        assert other.returncode == 0, other.stderr
        assert f"removed what was used longest ago: worktree {run_git(first.root, 'rev-parse', 'HEAD')[:12]}" in (
            other.stderr
        )

        assert first.minions("hosts", "resume", "local").returncode == 0
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        assert "local: its worktree was removed; it is made again" in said
        first.assert_whole()
    finally:
        left = first.end() + second.end()
    assert left == []
