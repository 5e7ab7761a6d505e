"""What people wish of hosts on the command line: how many slots, and back to what minions.toml says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hosts.own_project import OwnProject

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[OwnProject]:
    made = OwnProject(tmp_path / "project")
    made.make()
    yield made
    assert made.end() == []


def local(project: OwnProject) -> dict[str, Any]:
    (row,) = project.json("hosts", "ls")["data"]
    return row


def test_slots_that_were_set_by_hand_are_shown_and_taken_back(project: OwnProject) -> None:
    assert (local(project)["slots"], local(project)["slots_by_hand"]) == (2, False)
    assert project.minions("hosts", "slots", "local", "3").returncode == 0
    assert (local(project)["slots"], local(project)["slots_by_hand"]) == (3, True)
    assert "3 (by hand)" in project.minions("hosts", "ls").stdout
    refused = project.minions("hosts", "slots", "local", "0")
    assert refused.returncode == 2
    assert "minions hosts pause local" in refused.stderr
    assert local(project)["slots"] == 3
    taken_back = project.minions("hosts", "slots", "local")
    assert "as many slots as minions.toml says" in taken_back.stderr
    assert (local(project)["slots"], local(project)["slots_by_hand"]) == (2, False)
