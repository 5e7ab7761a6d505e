"""A state directory makes an executor the same one again, and belongs to one at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minions.domain.errors import Conflict
from minions.executor.identity import own_state

_HOLDER = """
import sys, pathlib
from minions.executor.identity import own_state
with own_state(pathlib.Path(sys.argv[1])) as instance:
    print(instance, flush=True)
    sys.stdin.read()
"""


def test_it_is_the_same_after_a_restart_and_another_elsewhere(tmp_path: Path) -> None:
    with own_state(tmp_path / "a") as first:
        pass
    with own_state(tmp_path / "a") as again, own_state(tmp_path / "b") as other:
        assert first == again != other
    assert len(first) == 32


def test_a_damaged_identity_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "instance").write_text("half")
    with own_state(tmp_path) as instance:
        assert len(instance) == 32
    with own_state(tmp_path) as again:
        assert again == instance


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    """Even when that one was killed and could not clean up."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        instance = holder.stdout.readline().strip()
        with pytest.raises(Conflict, match="another executor runs") as caught, own_state(tmp_path):
            pass
        assert "--state" in caught.value.advice
    finally:
        holder.kill()
        holder.communicate()
    with own_state(tmp_path) as again:
        assert again == instance
