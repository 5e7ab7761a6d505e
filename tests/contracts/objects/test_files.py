"""What only a folder of files has: unfinished files, modes, and links that nobody can sign."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minions.domain.errors import Conflict, ObjectMissing, Unavailable
from minions.objects.files import FileObjects
from minions.objects.open import open_objects


async def test_unfinished_files_are_dropped_after_a_day(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    await objects.write("a", b"1")
    old, new = tmp_path / ".writing" / "old", tmp_path / ".writing" / "new"
    for unfinished in (old, new):
        unfinished.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert [facts.key async for facts in objects.list()] == ["a"]
    await objects.check_writable()
    assert not old.exists()
    assert new.exists()


async def test_empty_folders_go_with_their_last_object(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    await objects.write("a/b/c", b"1")
    await objects.write("a/d", b"1")
    await objects.delete(["a/b/c"])
    assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "d").exists()


async def test_a_folder_is_no_object(tmp_path: Path) -> None:
    objects = FileObjects(tmp_path)
    await objects.write("a/b", b"1")
    for key in ("a", "a/b/c"):
        with pytest.raises(ObjectMissing):
            await objects.head(key)
        with pytest.raises(ObjectMissing):
            await objects.read(key)


async def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Conflict, match="a file stands where a folder must be"):
        await FileObjects(tmp_path / "file" / "below").check_writable()
    objects = FileObjects(tmp_path)
    await objects.write("a/b", b"1")
    for key in ("a", "a/b/c"):
        with pytest.raises(Conflict):
            await objects.write(key, b"2")
    assert await objects.read("a/b") == b"1"


async def test_nothing_is_signed_without_a_secret(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no secret"):
        await FileObjects(tmp_path).sign_read("a", 60)


@pytest.mark.parametrize("form", ["{}", "file://{}"])
async def test_a_folder_is_opened_by_path_or_uri(tmp_path: Path, form: str) -> None:
    await open_objects(form.format(tmp_path)).write("a/b", b"1")
    assert (tmp_path / "a" / "b").read_bytes() == b"1"
