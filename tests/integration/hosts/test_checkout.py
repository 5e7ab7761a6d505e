"""A commit on a host: what is brought, what is verified, what is refused, and what is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minions.hosts import project
from minions.hosts.checkout import check_out
from minions.hosts.connection import Connection
from minions.hosts.faults import CheckoutRefused
from minions.hosts.inventory import Host
from minions.hosts.project import dirty_patch, pin
from tests.integration.hosts.holding import hold
from tests.integration.hosts.projects import commit, run_git, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a project é"


async def listed(connection: Connection, directory: str) -> set[str]:
    done = await connection.run(["find", ".", "-type", "f", "-not", "-path", "./.git"], directory=directory)
    return {line[2:] for line in done.stdout.decode().splitlines()}


async def test_only_what_is_missing_is_brought(connection: Connection, root: Path) -> None:
    first = commit(root, {"large": os.urandom(400_000), "deep/a b é": "one\r\n"})
    made = await check_out(connection, root, first)
    assert made.made
    assert made.sent_bytes > 400_000
    assert await listed(connection, made.directory) == {"large", "deep/a b é"}
    head = await connection.run(["git", "rev-parse", "HEAD"], directory=made.directory)
    assert head.stdout.decode().strip() == first

    again = await check_out(connection, root, first)
    assert (again.made, again.sent_bytes, again.directory) == (False, 0, made.directory)

    second = commit(root, {"deep/a b é": "two\n"})
    third = commit(root, {"small": "three\n"})
    latest = await check_out(connection, root, third)
    assert 0 < latest.sent_bytes < 5_000
    assert latest.directory != made.directory
    between = await check_out(connection, root, second)  # came with the third
    assert (between.made, between.sent_bytes) == (True, 0)
    text = await connection.run(["cat", f"{made.directory}/deep/a b é", f"{between.directory}/deep/a b é"])
    assert text.stdout == b"one\r\ntwo\n"


async def test_a_branch_that_moved_changes_nothing(connection: Connection, root: Path) -> None:
    first = commit(root, {"file": "one\n"})
    pinned = await pin(root, "main")
    commit(root, {"file": "two\n"})
    assert pinned == first
    made = await check_out(connection, root, pinned)
    assert (await connection.run(["cat", "file"], directory=made.directory)).stdout == b"one\n"


async def test_history_that_was_rewritten_is_brought(connection: Connection, root: Path) -> None:
    commit(root, {"base": os.urandom(200_000)})
    await check_out(connection, root, commit(root, {"file": "old\n"}))
    run_git(root, "reset", "--quiet", "--hard", "HEAD~1")
    run_git(root, "reflog", "expire", "--expire=now", "--all")
    run_git(root, "gc", "--quiet", "--prune=now")
    made = await check_out(connection, root, commit(root, {"file": "new\n"}))
    assert (await connection.run(["cat", "file"], directory=made.directory)).stdout == b"new\n"


async def test_a_dirty_tree_comes_as_a_verified_patch(connection: Connection, root: Path) -> None:
    first = commit(root, {"changed": "one\n", "removed": "x\n", "bytes": b"\0\1", ".gitignore": "ignored\n"})
    assert await dirty_patch(root, first, []) is None
    write(root, {"changed": "two  \r\n", "bytes": b"\0\2\xff", "new/a b é": "new", "ignored": "i", "results/out": "o"})
    (root / "removed").unlink()
    (root / "new" / "run").write_text("#!/bin/sh\n")
    (root / "new" / "run").chmod(0o755)
    status = run_git(root, "status", "--porcelain")
    found = await project.changes(root, first)
    assert set(found.changed) == {"changed", "removed", "bytes"}
    assert set(found.untracked) == {"new/a b é", "new/run", "results/out"}

    patch = await dirty_patch(root, first, [*found.changed, "new/a b é", "new/run"])
    assert patch is not None
    assert run_git(root, "status", "--porcelain") == status
    made = await check_out(connection, root, first, patch=patch)
    assert await listed(connection, made.directory) == {"changed", "bytes", "new/a b é", "new/run", ".gitignore"}
    text = await connection.run(["cat", "changed", "bytes", "new/a b é"], directory=made.directory)
    assert text.stdout == b"two  \r\n\0\2\xffnew"
    assert (await connection.run(["./new/run"], directory=made.directory)).code == 0
    clean = await check_out(connection, root, first)
    assert clean.directory != made.directory
    assert not (await check_out(connection, root, first, patch=patch)).made


async def test_a_patch_that_gives_another_tree_is_refused(connection: Connection, root: Path) -> None:
    first = commit(root, {"file": "one\n"})
    write(root, {"file": "two\n"})
    patch = await dirty_patch(root, first, ["file"])
    assert patch is not None
    other = project.Patch(patch.content, run_git(root, "rev-parse", "HEAD^{tree}"))
    with pytest.raises(CheckoutRefused, match=r"mini: .* has tree"):
        await check_out(connection, root, first, patch=other)
    directories = (await check_out(connection, root, first)).directory.rpartition("/")[0]
    assert await worktrees(connection, directories) == {first}


async def worktrees(connection: Connection, directory: str) -> set[str]:
    entries = (await connection.request("entries", {"path": directory}))[0]["entries"]
    return {name for name, about in entries.items() if about["kind"] == "directory"}


async def test_what_jobs_did_to_tracked_files_is_undone_unless_one_runs(connection: Connection, root: Path) -> None:
    first = commit(root, {"file": "one\n", "gone": "x\n"})
    made = await check_out(connection, root, first)
    await connection.run(["sh", "-c", "echo more >> file; rm gone; echo o > output"], directory=made.directory)
    let_go = await hold(connection, made.lock)
    assert (await check_out(connection, root, first)).restored == ()
    await let_go()
    again = await check_out(connection, root, first)
    assert set(again.restored) == {"file", "gone"}
    assert await listed(connection, made.directory) == {"file", "gone", "output"}
    assert (await connection.run(["cat", "file"], directory=made.directory)).stdout == b"one\n"


async def test_a_worktree_of_another_commit_is_refused(connection: Connection, root: Path) -> None:
    first = commit(root, {"file": "one\n"})
    second = commit(root, {"file": "two\n"})
    made = await check_out(connection, root, second)
    await connection.run(["git", "checkout", "--quiet", first], directory=made.directory)
    with pytest.raises(CheckoutRefused, match=rf"mini: .* has commit {first}, not {second}") as raised:
        await check_out(connection, root, second)
    assert "Remove it there" in raised.value.advice
    await connection.request("remove", {"paths": [made.directory]})
    assert (await check_out(connection, root, second)).made


async def test_submodules_lfs_and_shallow_clones_are_refused(
    connection: Connection, root: Path, tmp_path: Path
) -> None:
    first = commit(root, {"file": "one\n"})
    run_git(root, "update-index", "--add", "--cacheinfo", f"160000,{first},libs/other")
    write(root, {"data/.gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    run_git(root, "add", "data")
    run_git(root, "commit", "--quiet", "--message", "both")
    with pytest.raises(CheckoutRefused) as raised:
        await check_out(connection, root, await pin(root))
    assert "libs/other: submodules are not brought" in raised.value.message
    assert "data/.gitattributes: files in Git LFS are not brought" in raised.value.message
    plain = tmp_path / "plain"
    commit(plain, {"file": "1"})
    commit(plain, {"file": "2"})
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{plain}", str(shallow))
    with pytest.raises(CheckoutRefused, match="git fetch --unshallow"):
        await check_out(connection, shallow, await pin(shallow))
    async with Connection.open(Host("local", state=str(tmp_path / "state"))) as local:
        assert (await check_out(local, shallow, await pin(shallow))).sent_bytes == 0
