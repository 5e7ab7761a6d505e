"""Outputs are taken whole or not at all, and a directory has one hash."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from minions.executor.commands.messages import Session
from minions.executor.commands.outbox import Outbox
from minions.executor.commands.outputs import OutputMissing, OutputTooLarge, clear_output, take_output


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
