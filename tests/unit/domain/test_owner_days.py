"""Whole days of a simulated owner: what the machine did, when, and why."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from minions.domain.policy import OnReturn, OwnerPolicy, Schedule, Span, State
from tests.unit.domain.simulated_owner import DAY, HOUR, Life, any_life, overlap, typing
from tests.unit.domain.simulated_pool import Batch, Machine, run_pool

POLICY = OwnerPolicy(excluding_programs=("Game",))


def drive(life: Life, policy: OwnerPolicy = POLICY, until: float = DAY, subtasks: int = 400) -> tuple[Machine, Batch]:
    """One machine alone with a long queue."""
    machine, batch = Machine(life, policy, rows_per_second=10.0, phase=0.2), Batch(subtasks)
    at = 0.1
    while at < until:
        batch.watch(at)
        at = machine.look(at, batch)
    return machine, batch


def states(machine: Machine, begin: float = 0.0, end: float = DAY) -> list[State]:
    return [state for at, state, _ in machine.trail if begin <= at < end and state is not State.READY]


def worked(machine: Machine, begin: float, end: float) -> float:
    return sum(overlap([each], begin, end) for each in machine.worked)


def test_an_empty_office_works_all_day() -> None:
    machine, batch = drive(Life())
    assert worked(machine, 0, DAY) > 0.99 * DAY
    assert sum(batch.cursors) > 0.98 * DAY * 10
    assert batch.doubled_rows == 0


def test_somebody_arrives_stays_and_leaves() -> None:
    arrives, leaves = 9 * HOUR, 17 * HOUR
    inputs = [-DAY, *typing(random.Random(1), arrives, leaves)]
    machine, batch = drive(Life(inputs=inputs))
    returned = next(at for at, state, _ in machine.trail if state is State.EVICTING)
    assert returned - arrives < 2.0
    gone = next(at for at, state, _ in machine.trail if at > returned and state is State.WAITING)
    assert gone - arrives < 5.0, "the memory is free"
    assert worked(machine, inputs[-1] + 2, inputs[-1] + 299) == 0
    assert worked(machine, inputs[-1] + 300, DAY) > 0.99 * (DAY - inputs[-1] - 330)
    assert batch.doubled_rows == 0


def test_a_glance_costs_a_few_seconds() -> None:
    """One touch, and nobody there: frozen, and on after five seconds."""
    machine, _ = drive(Life(phantoms=[5 * HOUR]))
    frozen = [at for at, state, _ in machine.trail if state is State.SUSPENDED]
    on = next(at for at, state, _ in machine.trail if at > frozen[0] and state is State.BUSY)
    assert len(frozen) == 1
    assert on - 5 * HOUR < 6.5
    assert worked(machine, 0, DAY) > 0.99 * DAY


def test_unplugged_for_lunch() -> None:
    machine, _ = drive(Life(on_battery=[(12 * HOUR, 13 * HOUR)]))
    assert worked(machine, 12 * HOUR + 1, 13 * HOUR + 59) == 0
    assert worked(machine, 13 * HOUR + 90, 14 * HOUR) > 3400
    why = next(text for at, state, text in machine.trail if state is State.WAITING and at > 12 * HOUR)
    assert why == "on battery since 12:00"


def test_a_loose_plug_does_not_start_and_stop_work_without_end() -> None:
    flicker = [(12 * HOUR + number * 20, 12 * HOUR + number * 20 + 10) for number in range(180)]
    machine, _ = drive(Life(on_battery=flicker))
    assert states(machine, 12 * HOUR, 13 * HOUR).count(State.EVICTING) == 1


def test_a_hot_machine_cools_down_in_place() -> None:
    machine, batch = drive(Life(hot=[(6 * HOUR, 6 * HOUR + 240)]))
    assert states(machine, 6 * HOUR - 1, 7 * HOUR)[:2] == [State.SUSPENDED, State.BUSY]
    assert worked(machine, 6 * HOUR + 1, 6 * HOUR + 299) == 0
    assert batch.doubled_rows == 0


def test_a_machine_that_stays_hot_gives_its_work_back() -> None:
    machine, batch = drive(Life(hot=[(6 * HOUR, 10 * HOUR)]), until=9 * HOUR)
    assert states(machine, 6 * HOUR - 1, 9 * HOUR) == [State.SUSPENDED, State.EVICTING, State.WAITING]
    assert batch.owners == {}


def test_a_full_disk_pauses_and_says_so() -> None:
    machine, batch = drive(Life(disk_full=[(3 * HOUR, 4 * HOUR)]))
    assert worked(machine, 3 * HOUR + 1, 4 * HOUR) == 0
    why = next(text for at, state, text in machine.trail if state is State.WAITING and at > 3 * HOUR)
    assert why.startswith("only 1.0 GB of the disk are free")
    assert worked(machine, 4 * HOUR + 120, 5 * HOUR) > 3400
    assert batch.doubled_rows == 0


@pytest.mark.parametrize("told", [True, False])
def test_a_night_asleep_loses_nothing(told: bool) -> None:
    machine, batch = drive(Life(asleep=[(1 * HOUR, 7 * HOUR)], told=told))
    assert worked(machine, 1 * HOUR, 7 * HOUR) == 0
    assert batch.doubled_rows == 0
    evicted = [at for at, state, _ in machine.trail if state is State.EVICTING]
    assert bool(evicted) is told
    assert all(at < 1 * HOUR for at in evicted), "given back on the way down"
    assert worked(machine, 7 * HOUR + 60, DAY) > 0.99 * (17 * HOUR - 60)


def test_a_game_in_the_evening() -> None:
    machine, _ = drive(Life(program=[(20 * HOUR, 22 * HOUR)]))
    assert worked(machine, 20 * HOUR + 1, 22 * HOUR + 59) == 0
    assert "Game runs since 20:00" in [text for _, _, text in machine.trail]


def test_probes_that_fail_for_a_while_stop_nothing() -> None:
    machine, _ = drive(Life(unreadable=[(2 * HOUR, 2 * HOUR + 300)]))
    assert State.EVICTING not in states(machine)
    assert State.SUSPENDED not in states(machine)
    assert worked(machine, 2 * HOUR, 2 * HOUR + 10) > 9, "what runs goes on"


def test_nights_only() -> None:
    policy = replace(POLICY, schedule=Schedule((Span.parse("daily 22:00-06:00"),)))
    machine, _ = drive(Life(), policy)
    assert worked(machine, 6 * HOUR + 2, 22 * HOUR) == 0
    assert worked(machine, 0, 6 * HOUR) > 0.99 * 6 * HOUR
    assert worked(machine, 22 * HOUR, DAY) > 0.98 * 2 * HOUR


def test_suspended_for_a_short_call_and_on_again() -> None:
    policy = replace(POLICY, on_return=OnReturn.SUSPEND)
    touches = [10 * HOUR + number for number in range(60)]
    machine, batch = drive(Life(inputs=[-DAY, *touches]), policy)
    assert states(machine, 10 * HOUR - 1, 11 * HOUR)[:2] == [State.SUSPENDED, State.BUSY]
    assert batch.doubled_rows == 0


def test_two_days_of_six_owners_lose_nothing_and_work_when_they_may() -> None:
    """The short twin of benchmarks/owner_week.py."""
    lives = [any_life(number) for number in range(6)]
    week = run_pool(lives, [POLICY] * 6, subtasks=250, until=2 * DAY)
    assert week.rows_lost == 0
    assert week.rows_doubled == 0
    assert week.forbidden_seconds == 0
    assert week.used_share >= 0.95
    assert week.finished_after_hours < 48


def test_the_simulation_notices_forbidden_work() -> None:
    """A policy that ignores its owner must not pass for one that does not."""
    careless = replace(POLICY, on_return=OnReturn.IGNORE)
    week = run_pool([any_life(0)], [careless], subtasks=100, until=DAY)
    assert week.forbidden_seconds > HOUR
