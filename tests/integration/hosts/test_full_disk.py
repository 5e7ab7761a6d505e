"""The coordinator's disk is full while outputs arrive."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.hosts.far_project import FarProject, far_project
from tests.integration.hosts.own_project import wait_until
from tests.services.sshd import SshHost, mini

__all__ = ["mini"]

pytestmark = pytest.mark.timeout(300)

OUTPUT_BYTES = 100_000
WRITE = f'head -c {OUTPUT_BYTES} /dev/zero | tr "\\\\0" "{{{{index}}}}" > {{{{output}}}}'
PROJECT_BYTES = 400_000_000  # PostgreSQL takes most of it


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Generator[None]:
    """A file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"the kernel mounts no tmpfs: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path) -> None:
    """To the last block."""
    with suppress(OSError), place.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def whole(project: FarProject) -> list[int]:
    """The outputs that lie under their own paths: whole, or not at all."""
    found = [number for number in range(project.jobs) if project.output(number).exists()]
    for number in found:
        assert project.output(number).read_bytes() == str(number).encode() * OUTPUT_BYTES
    return found


def test_outputs_that_find_no_room_wait_for_it_and_the_next_run_brings_them_without_a_job(
    mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_project(tmp_path, monkeypatch, [mini], jobs=4) as project:
        project.describe(["local"], slots=4, work=WRITE)
        results, noted = project.root / "results", project.root / ".minions" / "delivered"
        with small_disk(results, 300_000):
            project.hold(*range(4))
            run = project.start("run")
            project.wait_for_begun(4)
            noted.symlink_to("/dev/full")  # what has arrived cannot be noted either
            project.let(*range(4))
            wait_until(lambda: project.status()["done"] == 2 and len(project.status()["notes"]) == 2)
            assert len(whole(project)) == len(list(results.iterdir())) == 2
            assert run.poll() is None
            assert project.minions("stop").returncode == 0
            _, said = run.communicate(timeout=120)
            (late, _) = sorted(set(range(4)) - set(whole(project)))
            assert f"results/{late}.txt cannot be written: no space left on device. Mend that" in said

            noted.unlink()
            subprocess.run(["mount", "-o", "remount,size=10m", results], check=True)
            again = project.minions("run")
            assert again.returncode == 0, again.stderr
            assert "2 of them were done before" in again.stderr
            assert whole(project) == [0, 1, 2, 3]
            assert list(project.noted("begin").values()) == [["local"]] * 4


def test_a_disk_without_any_room_is_told_and_the_run_goes_on_when_there_is_some(
    mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database, the objects and the outputs are all on it. mini keeps what it makes."""
    with small_disk(tmp_path / "project", PROJECT_BYTES), far_project(tmp_path, monkeypatch, [mini], jobs=4) as project:
        project.describe(["mini"], work=WRITE)
        project.hold(*range(4))
        run = project.start("run", "--quiet")
        project.wait_for_begun(2)
        filler = project.root / ".git" / "filler"
        fill(filler)
        project.let(*range(4))
        assert run.stderr is not None
        assert run.stderr.readline().startswith(f"The disk of {project.root} is full. Free some space")
        wait_until(lambda: sum(map(len, project.noted("end").values())) >= 2)
        assert whole(project) == []
        filler.unlink()
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        assert whole(project) == [0, 1, 2, 3]
        assert list(project.noted("begin").values()) == [["mini"]] * 4
