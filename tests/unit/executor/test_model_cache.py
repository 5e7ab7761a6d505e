"""The model cache: room is made by deleting what was least used, never what is in use, and never in vain."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minions.domain.errors import DiskFull, DoesNotFit
from minions.executor.model_cache import SPARE_BYTES, ModelCache, full_disk_said, size_of

_MB = 1 << 20


class Disk:
    """A disk with so many bytes free, before what is written into the cache."""

    def __init__(self, root: Path, size_bytes: int) -> None:
        self.root = root
        self.size_bytes = size_bytes

    def free(self, _: Path) -> int:
        return self.size_bytes - size_of(self.root / "objects") - size_of(self.root / "hf")


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def cache_of(
    root: Path, *, limit_mb: int | None = None, disk_mb: int = 10_000, elsewhere_mb: int = 0, clock: Clock | None = None
) -> ModelCache:
    disk = Disk(root, SPARE_BYTES + disk_mb * _MB)
    return ModelCache(
        root,
        limit_bytes=None if limit_mb is None else limit_mb * _MB,
        elsewhere_bytes=lambda: elsewhere_mb * _MB,
        free_bytes=disk.free,
        clock=clock or Clock(),
    )


def put(cache: ModelCache, root: Path, name: str, megabytes: int = 1) -> Path:
    """A model of this size that nobody uses."""
    folder = root / "objects" / name
    cache.use(folder, f"s3://models/{name}")
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(megabytes * _MB))
    cache.leave(folder)
    return folder


def names(cache: ModelCache) -> list[str]:
    return [each.folder.name for each in cache.models()]


def test_the_least_recently_used_goes_until_the_limit_holds(tmp_path: Path) -> None:
    clock = Clock()
    cache = cache_of(tmp_path, limit_mb=4, clock=clock)
    one, _, _ = put(cache, tmp_path, "one"), put(cache, tmp_path, "two"), put(cache, tmp_path, "three")
    cache.use(one, "s3://models/one")
    cache.leave(one)
    cache.make_room(2 * _MB, tmp_path / "objects" / "four", "s3://models/four")
    assert names(cache) == ["one", "three"]
    assert [each.model for each in cache.models()] == ["s3://models/one", "s3://models/three"]


def test_without_a_limit_only_a_short_disk_deletes(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, disk_mb=5)
    put(cache, tmp_path, "one")
    put(cache, tmp_path, "two")
    cache.make_room(3 * _MB, tmp_path / "objects" / "new", "new")
    assert names(cache) == ["one", "two"]
    cache.make_room(4 * _MB, tmp_path / "objects" / "new", "new")
    assert names(cache) == ["two"]


def test_what_never_fits_deletes_nothing(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, disk_mb=5, limit_mb=100)
    put(cache, tmp_path, "one")
    with pytest.raises(DiskFull, match="the disk is full: new takes 6 MB more, 1 GB are free, and 1 GB must stay free"):
        cache.make_room(6 * _MB, tmp_path / "objects" / "new", "new")
    with pytest.raises(DoesNotFit, match="new takes 101 MB on the disk, and models may take 100 MB here"):
        cache.make_room(101 * _MB, tmp_path / "objects" / "new", "new")
    assert names(cache) == ["one"]


def test_what_is_in_use_stays_and_the_next_goes(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, limit_mb=3)
    one, two = put(cache, tmp_path, "one"), put(cache, tmp_path, "two")
    cache.use(one, "one")
    try:
        cache_of(tmp_path, limit_mb=3).make_room(2 * _MB, tmp_path / "objects" / "new", "new")
        assert one.exists()
        assert not two.exists()
        with pytest.raises(DoesNotFit, match="are in use, or other programs keep them"):
            cache.make_room(3 * _MB, tmp_path / "objects" / "new", "new")
    finally:
        cache.leave(one)


def test_another_process_that_uses_a_model_keeps_it_until_it_dies(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, limit_mb=1)
    folder = put(cache, tmp_path, "one")
    program = (
        "import sys, pathlib; from minions.executor.model_cache import ModelCache\n"
        "ModelCache(pathlib.Path(sys.argv[1])).use(pathlib.Path(sys.argv[2]), 'x'); print('ready', flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(DoesNotFit):
            cache.make_room(_MB, tmp_path / "objects" / "new", "new")
        assert folder.exists()
        process.kill()
        process.wait()
    cache.make_room(_MB, tmp_path / "objects" / "new", "new")
    assert not folder.exists()


def test_who_wants_a_model_that_is_being_deleted_waits_and_finds_it_gone(tmp_path: Path) -> None:
    """Holding the lock of a file that was deleted would hold nothing."""
    cache = cache_of(tmp_path, limit_mb=1)
    folder = put(cache, tmp_path, "one")
    cache.make_room(_MB, tmp_path / "objects" / "new", "new")
    assert not folder.exists()
    cache.use(folder, "one")
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(bytes(_MB))
    with pytest.raises(DoesNotFit):
        cache_of(tmp_path, limit_mb=1).make_room(_MB, tmp_path / "objects" / "new", "new")
    assert folder.exists()
    cache.leave(folder)


def test_models_of_other_programs_count(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, limit_mb=10, elsewhere_mb=8)
    put(cache, tmp_path, "one")
    cache.make_room(_MB, tmp_path / "objects" / "new", "new")
    assert names(cache) == ["one"]
    cache.make_room(2 * _MB, tmp_path / "objects" / "new", "new")
    assert names(cache) == []
    with pytest.raises(DoesNotFit) as refused:
        cache.make_room(3 * _MB, tmp_path / "objects" / "new", "new")
    assert "ollama rm" in refused.value.advice


def test_one_download_of_a_model_at_a_time(tmp_path: Path) -> None:
    cache = cache_of(tmp_path)
    folder, inside, entered = tmp_path / "objects" / "one", threading.Event(), threading.Event()

    def second() -> None:
        with ModelCache(tmp_path).fetching(folder):
            entered.set()

    thread = threading.Thread(target=second)
    with cache.fetching(folder):
        thread.start()
        assert not entered.wait(0.1)
        inside.set()
    thread.join(60)
    assert entered.is_set()


def test_a_folder_of_an_earlier_version_is_counted_and_goes_first(tmp_path: Path) -> None:
    cache = cache_of(tmp_path, limit_mb=2)
    put(cache, tmp_path, "new")
    old = tmp_path / "hf" / "models--org--name"
    (old / "blobs").mkdir(parents=True)
    (old / "blobs" / "a").write_bytes(bytes(_MB))
    (old / "snapshots").mkdir()
    (old / "snapshots" / "a").symlink_to("../blobs/a")
    assert ("hf:org/name", _MB) in [(each.model, each.size_bytes) for each in cache.models()]
    cache.make_room(_MB, tmp_path / "objects" / "newer", "newer")
    assert names(cache) == ["new"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_without_room_is_a_full_disk(code: int) -> None:
    with pytest.raises(DiskFull), full_disk_said():
        raise OSError(code, "no room")
    with pytest.raises(OSError, match="other"), full_disk_said():
        raise OSError(errno.EIO, "other")
