"""Outputs are taken whole or not at all, and a directory has one hash."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from minions.executor.commands.messages import Session
from minions.executor.commands.outbox import Outbox
from minions.executor.commands.outputs import OutputMissing, OutputTooLarge, clear_output, take_output, tree_sha256


def tree(folder: Path, moment: int) -> Path:
    folder.mkdir()
    (folder / "b").mkdir()
    (folder / "b" / "x.sh").write_text("#!/bin/sh\n")
    (folder / "b" / "x.sh").chmod(0o750)
    (folder / "a b\n").write_bytes(b"1")
    (folder / "link").symlink_to("b/x.sh")
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (moment, moment), follow_symlinks=False)
    return folder


def test_a_directory_made_elsewhere_at_another_time_has_the_same_hash(tmp_path: Path) -> None:
    first = take_output(tree(tmp_path / "one", 10**9), tmp_path / "one.tar")
    second = take_output(tree(tmp_path / "two", 10**9 + 7), tmp_path / "two.tar")
    assert (first.sha256, first.is_directory) == (second.sha256, True)
    assert not (tmp_path / "one").exists()
    data = (tmp_path / "one.tar").read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (first.sha256, first.size_bytes)
    with tarfile.open(tmp_path / "one.tar") as tar:
        assert [(member.name, oct(member.mode), member.linkname) for member in tar] == [
            ("a b\n", "0o644", ""),
            ("b", "0o755", ""),
            ("b/x.sh", "0o755", ""),
            ("link", "0o777", "b/x.sh"),
        ]


def test_what_the_object_store_does_not_take_stays_where_it_is(tmp_path: Path) -> None:
    file, folder, target = tmp_path / "file", tree(tmp_path / "folder", 10**9), tmp_path / "target"
    file.write_bytes(bytes(1001))
    for place in (file, folder):
        with pytest.raises(OutputTooLarge, match="more than 1,000 bytes"):
            take_output(place, target, 1000)
        assert place.exists()
        assert not target.exists()
    assert take_output(file, target, 1001).size_bytes == 1001
    assert take_output(folder, target, 1 << 20).is_directory


def test_a_change_in_a_directory_changes_its_hash(tmp_path: Path) -> None:
    hashes: set[str] = set()
    for number in range(3):
        place = tree(tmp_path / f"t{number}", 10**9)
        if number == 1:
            (place / "b" / "x.sh").chmod(0o640)
        elif number == 2:
            (place / "e").mkdir()
        hashes.add(take_output(place, tmp_path / f"t{number}.tar").sha256)
    assert len(hashes) == 3


def test_what_is_no_output_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "file").write_text("x")
    for name in ("absent", "pipe", "link", "file/below"):
        with pytest.raises(OutputMissing):
            take_output(tmp_path / name, tmp_path / "taken")
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(OutputMissing, match="holds pipe"):
        take_output(folder, tmp_path / "taken")
    assert not (tmp_path / "taken").exists()
    assert folder.exists()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc/passwd", "holds b/link, a link to the absolute path /etc/passwd"),
        ("../../x", r"holds b/link, a link that leads out of it, to \.\./\.\./x"),
        ("x/../../..", "leads out of it"),
        ("around/../x", "goes through a link"),
    ],
)
def test_a_link_that_could_not_be_unpacked_is_refused_where_it_was_made(tmp_path: Path, target: str, said: str) -> None:
    place = tree(tmp_path / "folder", 10**9)
    (place / "deep").mkdir()
    (place / "b" / "around").symlink_to("../deep")
    (place / "b" / "link").symlink_to(target)
    with pytest.raises(OutputMissing, match=said):
        take_output(place, tmp_path / "taken")


@pytest.mark.parametrize("target", ["./x.sh", "..//b/x.sh", "..", "nowhere", "../link"])
def test_a_link_within_the_output_has_the_same_hash_once_it_is_unpacked(tmp_path: Path, target: str) -> None:
    place = tree(tmp_path / "folder", 10**9)
    (place / "b" / "a").symlink_to(target)
    taken = take_output(place, tmp_path / "taken")
    with tarfile.open(tmp_path / "taken") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(tmp_path / "unpacked")
    assert tree_sha256(tmp_path / "unpacked") == taken.sha256


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0)
    with pytest.raises(OutputMissing, match=r"^file cannot be read"):
        take_output(tmp_path / "file", tmp_path / "taken")
    place = tree(tmp_path / "folder", 10**9)
    (place / "b" / "x.sh").chmod(0)
    with pytest.raises(OutputMissing, match=r"holds b/x\.sh, which cannot be read"):
        take_output(place, tmp_path / "taken")
    (place / "b").chmod(0)
    with pytest.raises(OutputMissing, match=r"holds b, which cannot be read"):
        take_output(place, tmp_path / "taken")
    (place / "b").chmod(0o700)


def test_what_an_earlier_attempt_left_is_cleared_and_what_a_link_leads_to_is_not(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "x").write_text("x")
    place = tmp_path / "deep" / "out"
    clear_output(place)
    place.symlink_to(kept)
    clear_output(place)
    assert not place.is_symlink()
    place.mkdir()
    (place / "y").write_text("y")
    clear_output(place)
    assert not place.exists()
    assert (kept / "x").exists()


def test_the_outbox_finds_what_was_finished_and_removes_what_was_not(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.output("acq_1").write_text("whole")
    outbox.keep(Session("exe_1", "s"), {"acquirement": "acq_1", "sha256": "a"})
    outbox.output("acq_2").write_text("half")
    (tmp_path / "outbox" / "acq_3.json").write_text("{")
    found = Outbox(tmp_path / "outbox").found()
    assert [(kept.acquirement, kept.session, kept.commit["sha256"]) for kept in found] == [
        ("acq_1", Session("exe_1", "s"), "a")
    ]
    assert sorted(path.name for path in (tmp_path / "outbox").iterdir()) == ["acq_1.json", "acq_1.output"]
    outbox.drop("acq_1")
    assert list((tmp_path / "outbox").iterdir()) == []
