"""What of an executor's own words people of some teams are told."""

from __future__ import annotations

import pytest

from minions.domain.discretion import reason_for_teams, without_work
from minions.domain.errors import DiskFull, EngineFailed
from minions.executor.circuit import Circuit


@pytest.mark.parametrize("state", ["busy", "idle", "starting"])
@pytest.mark.parametrize(
    "reason",
    [
        "search/hidden/under-the-counter",
        "downloading s3://team-b/model: 40 %",
        "leaves search/hidden/under-the-counter alone: the model is not there",
        "ends what runs: on battery",
    ],
)
def test_what_work_makes_of_a_reason_is_not_told(state: str, reason: str) -> None:
    assert reason_for_teams(state, reason) == ""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("paused", "on battery; somebody used this Mac 3 s ago"),
        ("stopping", "paused by hand since 14:02"),
        ("offline", "no sign of life"),
        ("idle", "waiting for work"),
    ],
)
def test_what_the_owner_decided_is_told_whole(state: str, reason: str) -> None:
    assert reason_for_teams(state, reason) == reason


def test_a_circuit_tells_neither_the_message_of_a_task_nor_its_model() -> None:
    circuit = Circuit(clock=lambda: 1_800_000_000.0)
    for task in ("tsk_1", "tsk_2", "tsk_3"):
        circuit.fault(task, EngineFailed("s3://team-b/model: it tries again at nothing; and more: of it"))
    whole = circuit.reason or ""
    assert "team-b" in whole
    begin, end = "3 tasks failed here, and none was done in between, last with engine_failed", "; it tries again at "
    assert without_work(whole).startswith(begin + end)
    assert without_work(whole).endswith("or at once: minions executor resume")
    assert "team-b" not in reason_for_teams("paused", whole)
    assert without_work(f"{whole[:150]}…") == begin


def test_a_full_disk_names_no_model() -> None:
    circuit = Circuit(clock=lambda: 1_800_000_000.0)
    circuit.rest(DiskFull("the disk is full: s3://team-b/model takes 3 GB more").message, 300)
    assert without_work(circuit.reason or "").startswith("the disk is full; it tries again at ")
    assert without_work("the disk is full: s3://team-b/" + "m" * 900 + "…") == "the disk is full"
