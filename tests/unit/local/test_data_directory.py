"""The data directory: one owner, kept secrets, numbered logs, and no innocent process ended."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from minions.domain.errors import Conflict, MinionsError
from minions.local.data_directory import DataDirectory


def test_a_second_owner_is_told_where_the_first_one_runs(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path / "data"), DataDirectory(tmp_path / "data")
    first.claim()
    first.write_connection("http://127.0.0.1:7878", "mns_x")
    with pytest.raises(Conflict, match=rf"at http://127.0.0.1:7878 \(process {os.getpid()}\)"):
        second.claim()
    first.release()
    first.release()
    second.claim()
    second.release()


def test_a_place_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MinionsError, match="not a directory") as refused:
        DataDirectory(tmp_path / "file" / "data").claim()
    assert "--data" in refused.value.advice


def test_tokens_are_secret_and_stay(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path)
    tokens = place.tokens()
    assert place.tokens() == tokens
    assert tokens.admin != tokens.executor
    assert tokens.admin.startswith("mns_")
    assert tokens.admin not in repr(tokens)
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600
    place.write_connection("http://127.0.0.1:1", tokens.admin)
    assert stat.S_IMODE((tmp_path / "connection.json").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "connection.json").read_text()) == {
        "server": "http://127.0.0.1:1",
        "token": tokens.admin,
    }


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"admin": 1}'])
def test_damaged_tokens_are_made_anew(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "tokens.json").write_text(damaged)
    assert DataDirectory(tmp_path).tokens() == DataDirectory(tmp_path).tokens()


def test_logs_of_three_earlier_starts_are_kept(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path)
    for number in range(6):
        place.open_log("server").write_text(str(number))
    kept = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert kept == {"server.log": "5", "server.1.log": "4", "server.2.log": "3", "server.3.log": "2"}


def running_minions() -> subprocess.Popen[bytes]:
    """A process that looks like ours; for a moment after its start the kernel shows no command of it."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "minions.commands.main"])
    while "minions.commands.main" not in psutil.Process(process.pid).cmdline():
        time.sleep(0.01)
    return process


def test_only_our_own_processes_are_leftovers(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path)
    assert place.end_leftovers() == 0
    innocent = subprocess.Popen(["sleep", "60"])
    ours = running_minions()
    try:
        place.note_processes([innocent.pid, ours.pid])
        noted = json.loads((tmp_path / "processes.json").read_text())
        assert DataDirectory(tmp_path).end_leftovers() == 1
        assert not psutil.pid_exists(ours.pid)
        assert innocent.poll() is None

        # the same pid with another start is another process
        other = running_minions()
        with other:
            noted["processes"] = [{"pid": other.pid, "started": noted["processes"][0]["started"] - 3600}]
            (tmp_path / "processes.json").write_text(json.dumps(noted))
            assert place.end_leftovers() == 0
            assert other.poll() is None
            other.kill()
    finally:
        for process in (innocent, ours):
            process.kill()
            process.wait()
