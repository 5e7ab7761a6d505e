"""Pinning a run in a real repository: what makes a tree dirty, what does not, and what is part of a job's identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from minions.domain.errors import ValidationFailed
from minions.hosts.faults import CheckoutRefused
from minions.hosts.pinning import DirtyTree, PinnedRun, pin_run
from minions.hosts.project_file import read_project
from minions.hosts.run_directory import RunDirectory
from tests.integration.hosts.projects import commit, run_git, write

TABLE = """
[run]
command = ["cp", "in.txt", "{output}"]
list = ["a", "b"]
output = "OUTPUT"
inputs = ["in.txt", "data/big.bin"]
merge = ["cat", "--to=./res/merged", "{outputs}"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    commit(tmp_path, {"minions.toml": TABLE.replace("OUTPUT", "res/{item}"), "in.txt": "1", "code.py": "1"})
    write(tmp_path, {"data/big.bin": b"12345"})
    return tmp_path


async def pinned(root: Path, *, dirty: bool = False) -> PinnedRun:
    directory = RunDirectory(root)
    directory.make()
    return await pin_run(directory, read_project(root).run, dirty=dirty, selection=None)


def ids(found: PinnedRun) -> list[str]:
    return [identity for _, identity in found.run.jobs]


async def test_what_a_run_brings_and_makes_is_no_change(root: Path) -> None:
    first = await pinned(root)
    assert first.patch is None
    assert [(each.path, each.in_commit) for each in first.run.inputs] == [("in.txt", True), ("data/big.bin", False)]
    write(root, {"res/a": "out", "res/merged/all": "all", "minions.toml": (root / "minions.toml").read_text() + "\n"})
    assert ids(await pinned(root)) == ids(first)


@pytest.mark.parametrize(
    ("name", "content"), [("code.py", "2"), ("new.py", "1"), ("in.txt", "2")], ids=["changed", "untracked", "input"]
)
async def test_any_other_change_is_refused_or_becomes_part_of_every_job(root: Path, name: str, content: str) -> None:
    first = await pinned(root)
    write(root, {name: content, "res/a": "an output"})
    with pytest.raises(DirtyTree, match=name):
        await pinned(root)
    second = await pinned(root, dirty=True)
    assert second.patch is not None
    assert f"+++ b/{name}" in second.patch.content.decode()
    assert "big.bin" not in second.patch.content.decode(), "it is brought as an input"
    assert "res/a" not in second.patch.content.decode()
    assert second.run.patch_sha256 == second.patch.sha256
    assert not set(ids(first)) & set(ids(second))
    assert RunDirectory(root).patch(second.patch.sha256).read_bytes() == second.patch.content


async def test_tracked_code_that_lies_among_the_outputs_is_a_change(root: Path) -> None:
    commit(root, {"res/code.sh": "old"})
    write(root, {"res/code.sh": "new", "res/a": "an output"})
    with pytest.raises(DirtyTree, match=r"res/code\.sh"):
        await pinned(root)
    found = await pinned(root, dirty=True)
    assert found.patch is not None
    assert "+new" in found.patch.content.decode()
    assert "res/a" not in found.patch.content.decode()


async def test_a_new_file_among_the_outputs_is_a_change_and_an_output_of_an_earlier_run_is_not(root: Path) -> None:
    await pinned(root)
    for items in ('["c"]', '["d"]'):
        write(root, {"minions.toml": (TABLE.replace("OUTPUT", "res/{item}")).replace('["a", "b"]', items)})
        await pinned(root)
    write(root, {"res/a": "1", "res/b/part": "2", "res/c": "3"})
    assert (await pinned(root, dirty=True)).patch is None
    write(root, {"res/helper.py": "1"})
    with pytest.raises(DirtyTree, match=r"res/helper\.py") as refused:
        await pinned(root)
    assert "res/a" not in refused.value.message
    found = await pinned(root, dirty=True)
    assert found.patch is not None
    assert "+++ b/res/helper.py" in found.patch.content.decode()


@pytest.mark.parametrize("output", ["{item}", "{item}/x", "deep/{item}"])
async def test_an_output_that_would_replace_a_file_of_the_commit_is_refused(root: Path, output: str) -> None:
    names = '["x", "code.py"]' if output != "deep/{item}" else '["x", "er"]'
    table = TABLE.replace("OUTPUT", output).replace('["a", "b"]', names)
    commit(root, {"minions.toml": table, "deep/er/code": "1"})
    with pytest.raises(ValidationFailed, match=r"job 1 would write .* is in commit [0-9a-f]{12}; write elsewhere"):
        await pinned(root)


async def test_outputs_in_the_project_itself_are_no_change_either(root: Path) -> None:
    commit(root, {"minions.toml": TABLE.replace("OUTPUT", "out-{item}")})
    first = await pinned(root)
    write(root, {"out-a": "1", "out-b/part": "2"})
    assert (await pinned(root, dirty=True)).patch is None
    assert ids(await pinned(root)) == ids(first)
    write(root, {"out-c": "3"})
    with pytest.raises(DirtyTree, match="out-c"):
        await pinned(root)


async def test_another_input_is_another_job(root: Path) -> None:
    first = await pinned(root)
    write(root, {"data/big.bin": b"other"})
    assert not set(ids(first)) & set(ids(await pinned(root)))
    (root / "data" / "big.bin").unlink()
    with pytest.raises(ValidationFailed, match="no such file"):
        await pinned(root)


async def test_what_no_host_could_check_out_is_refused_before_anything_starts(root: Path) -> None:
    first = run_git(root, "rev-parse", "HEAD")
    run_git(root, "update-index", "--add", "--cacheinfo", f"160000,{first},libs/other")
    run_git(root, "commit", "--quiet", "--message", "with a submodule")
    with pytest.raises(CheckoutRefused, match="cannot be brought to any host: libs/other: submodules"):
        await pinned(root)
