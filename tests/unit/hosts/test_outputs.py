"""Outputs on the disk: looked at by their content, put into their places whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minions.executor.commands.outputs import take_output, tree_sha256
from minions.hosts.outputs import OutputDamaged, PlaceTaken, clear_temporary, look, put_in_place
from minions.hosts.resume import Output


async def pieces(content: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), 3):
        yield content[start : start + 3]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def put(root: Path, output: str, content: bytes, *, is_directory: bool = False) -> None:
    await put_in_place(root, output, pieces(content), sha256(content), is_directory=is_directory)


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def tree(folder: Path) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "data").write_bytes(b"12345")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/data")
    return folder


async def test_a_file_is_put_into_its_place_and_replaces_what_was_there(tmp_path: Path) -> None:
    await put(tmp_path, "a/b/out.txt", b"first")
    await put(tmp_path, "a/b/out.txt", b"second")
    assert (tmp_path / "a/b/out.txt").read_bytes() == b"second"
    assert names(tmp_path) == ["a", "a/b", "a/b/out.txt"]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a/b/out.txt").stat().st_mode & 0o777 == 0o666 & ~mask
    made = (sha256(b"third"), b"third")
    await put_in_place(tmp_path, "a/b/run", pieces(made[1]), made[0], is_directory=False, is_executable=True)
    assert (tmp_path / "a/b/run").stat().st_mode & 0o777 == 0o777 & ~mask


async def test_what_arrives_damaged_leaves_what_was_there(tmp_path: Path) -> None:
    await put(tmp_path, "out", b"good")
    with pytest.raises(OutputDamaged, match="out arrived with the hash"):
        await put_in_place(tmp_path, "out", pieces(b"goo"), sha256(b"good"), is_directory=False)
    assert (tmp_path / "out").read_bytes() == b"good"
    assert names(tmp_path) == ["out"]


async def test_a_directory_comes_out_of_its_tar_as_it_was(tmp_path: Path) -> None:
    made = tree(tmp_path / "made")
    expected = tree_sha256(made)
    output = take_output(made, tmp_path / "out.tar")
    assert output.sha256 == expected
    root = tmp_path / "project"
    (root / "res" / "x").mkdir(parents=True)
    (root / "res" / "x" / "old").touch()
    await put(root, "res/x", (tmp_path / "out.tar").read_bytes(), is_directory=True)
    assert names(root) == ["res", "res/x", "res/x/deep", "res/x/deep/data", "res/x/link", "res/x/run.sh"]
    assert look(root / "res" / "x", expected, is_directory=True) is Output.RIGHT
    (root / "res" / "x" / "deep" / "data").write_bytes(b"1234")
    assert look(root / "res" / "x", expected, is_directory=True) is Output.CHANGED


def tar_with(name: str, link: str | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        if link is not None:
            member.type, member.linkname = tarfile.SYMTYPE, link
        tar.addfile(member, io.BytesIO(b""))
    return out.getvalue()


@pytest.mark.parametrize(
    "content", [tar_with("../evil"), tar_with("in", "/etc/passwd"), tar_with("in", "../../evil"), b"no tar at all"]
)
@pytest.mark.parametrize("python", ["this", "3.11.2"])
async def test_nothing_in_a_tar_leads_out_of_its_place(
    tmp_path: Path, content: bytes, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if python == "3.11.2":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    root = tmp_path / "project"
    with pytest.raises(OutputDamaged):
        await put(root, "res", content, is_directory=True)
    assert names(tmp_path) == ["project"]


async def test_an_output_does_not_follow_a_link_out_of_the_project(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "res").symlink_to(outside)
    with pytest.raises(PlaceTaken, match="res is a link"):
        await put(root, "res/out", b"x")
    (root / "file").touch()
    with pytest.raises(PlaceTaken, match="file is a file"):
        await put(root, "file/out", b"x")
    assert names(outside) == []


@pytest.mark.parametrize(
    ("lies", "found"),
    [
        ("right", Output.RIGHT),
        ("righ", Output.CHANGED),
        ("a directory", Output.CHANGED),
        ("a link", Output.CHANGED),
        (None, Output.MISSING),
    ],
)
def test_what_lies_there(tmp_path: Path, lies: str | None, found: Output) -> None:
    match lies:
        case None:
            pass
        case "a directory":
            (tmp_path / "out").mkdir()
        case "a link":
            (tmp_path / "out").symlink_to("elsewhere")
        case _:
            (tmp_path / "out").write_text(lies)
    assert look(tmp_path / "out", sha256(b"right"), is_directory=False) is found


def test_what_a_killed_coordinator_was_writing_is_removed(tmp_path: Path) -> None:
    for name in ("res/.minions-abc", "res/kept", ".minions/lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "res" / ".minions-dir").mkdir()
    clear_temporary(tmp_path, {"res/a", "res/b", "top"})
    assert names(tmp_path) == [".minions", ".minions/lock", "res", "res/kept"]
