"""A lock is held by one, says by whom, and ends with whoever holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from minions.runtime.locks import hold, lock_holder


def test_one_holds_it_until_the_file_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    assert lock_holder(place) is None
    held = hold(place)
    assert held is not None
    with held:
        assert hold(place) is None
        assert lock_holder(place) == os.getpid()
    assert place.exists()
    assert lock_holder(place) is None
    again = hold(place)
    assert again is not None
    again.close()


def test_who_is_killed_holds_nothing(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    program = "import sys; from minions.runtime.locks import *; from pathlib import Path\n"
    program += "held = hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert hold(place) is None
        assert lock_holder(place) == other.pid
        other.kill()
    assert lock_holder(place) is None
