"""A machine that fails whatever it is given takes itself out of work."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from minions.domain.errors import EngineFailed, InputUnreadable, MinionsError, ModelUnavailable, ParametersRefused
from minions.domain.policy import OrderKind
from minions.executor.circuit import Circuit


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def at(moment: float) -> str:
    """On the clock of this machine's wall."""
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M}"


def broken(circuit: Circuit) -> Circuit:
    """Three tasks failed in a row."""
    for task in ("tsk_1", "tsk_2", "tsk_3"):
        circuit.fault(task, EngineFailed("the GPU is gone"))
    return circuit


def test_three_tasks_in_a_row_open_it_with_the_reason(clock: Clock) -> None:
    circuit = Circuit(clock=clock)
    circuit.fault("tsk_1", EngineFailed())
    circuit.fault("tsk_2", EngineFailed())
    assert (circuit.reason, circuit.seconds_left()) == (None, None)
    circuit.fault("tsk_3", EngineFailed("the GPU is gone"))
    assert circuit.reason == (
        "3 tasks failed here, and none was done in between, last with engine_failed: the GPU is gone; "
        f"it tries again at {at(clock.now + 600)}, or at once: minions executor resume"
    )
    assert circuit.seconds_left() == 600


def test_one_task_may_fail_as_often_as_it_likes(clock: Clock) -> None:
    """Its own poison must not take the whole pool out of work."""
    circuit = Circuit(clock=clock)
    for _ in range(50):
        circuit.fault("tsk_1", EngineFailed())
    assert circuit.reason is None


def test_a_success_in_between_starts_the_count_again(clock: Clock) -> None:
    circuit = Circuit(clock=clock)
    for task in range(8):
        circuit.fault(f"tsk_{task % 4}", EngineFailed())
        circuit.worked()
        circuit.worked()
    assert circuit.reason is None


def test_half_of_the_last_ten_open_it_too(clock: Clock) -> None:
    circuit = Circuit(clock=clock)
    for task in range(5):
        circuit.worked()
        circuit.fault(f"tsk_{task % 2}", EngineFailed())
    assert (circuit.reason or "").startswith("5 of the last 10 subtasks failed here, last with engine_failed")


@pytest.mark.parametrize(
    ("error", "opens_at"), [(InputUnreadable(), 6), (ModelUnavailable(), None), (ParametersRefused(), None)]
)
def test_what_is_likely_the_tasks_fault_counts_less(clock: Clock, error: MinionsError, opens_at: int | None) -> None:
    circuit = Circuit(clock=clock)
    opened: int | None = None
    for count in range(1, 30):
        circuit.fault(f"tsk_{count}", error)
        if circuit.reason is not None:
            opened = count
            break
    assert opened == opens_at


def test_much_later_one_more_is_tried_and_each_rest_is_longer(clock: Clock) -> None:
    circuit = broken(Circuit(clock=clock))
    rests: list[float | None] = []
    for _ in range(6):
        rests.append(circuit.seconds_left())
        clock.now += circuit.seconds_left() or 0
        assert circuit.reason is None
        circuit.fault("tsk_1", EngineFailed())
    assert rests == [600, 1800, 5400, 16200, 21600, 21600]
    clock.now += 30_000
    circuit.worked()
    circuit.fault("tsk_1", EngineFailed())
    assert circuit.reason is None


def test_it_outlasts_a_restart_until_the_owner_resumes(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "circuit.json"
    reason = broken(Circuit(file, clock=clock)).reason
    again = Circuit(file, clock=clock)
    assert reason is not None
    assert again.reason == reason
    changes: list[str | None] = []
    again.on_change = lambda: changes.append(again.reason)
    again.close()
    assert changes == [None]
    assert Circuit(file, clock=clock).reason is None


def test_it_stands_in_for_an_order_of_the_owner(clock: Clock) -> None:
    circuit = Circuit(clock=clock)
    assert circuit.order() is None
    order = broken(circuit).order()
    assert order is not None
    assert (order.kind, order.until) == (OrderKind.PAUSE, datetime.fromtimestamp(clock.now + 600).astimezone())
    assert order.reason.endswith(
        f"the GPU is gone; it tries again at {at(clock.now + 600)}, or at once: minions executor resume"
    )
    circuit.rest("the disk is full", 3600)
    assert (order := circuit.order()) is not None
    assert order.reason.startswith(f"the disk is full; it tries again at {at(clock.now + 3600)}, or at once")
    clock.now += 3600
    assert circuit.order() is None


def test_what_is_kept_may_be_damaged_or_from_the_future(clock: Clock, tmp_path: Path) -> None:
    file = tmp_path / "circuit.json"
    file.write_text("{")
    assert Circuit(file, clock=clock).reason is None
    broken(Circuit(file, clock=clock))
    clock.now -= 10**9
    assert Circuit(file, clock=clock).seconds_left() == 6 * 3600


def test_a_full_disk_rests_without_counting(clock: Clock, tmp_path: Path) -> None:
    circuit = Circuit(tmp_path / "circuit.json", clock=clock)
    circuit.rest("the disk is full", 300)
    assert (circuit.reason or "").startswith(f"the disk is full; it tries again at {at(clock.now + 300)}, or")
    clock.now += 300
    assert circuit.reason is None
    circuit.fault("tsk_1", EngineFailed())
    assert circuit.reason is None


def test_a_state_directory_that_cannot_be_written_keeps_it_open(clock: Clock, tmp_path: Path) -> None:
    assert broken(Circuit(tmp_path / "absent" / "circuit.json", clock=clock)).reason is not None
