"""Why an executor is idle, and why a task waits."""

from __future__ import annotations

from dataclasses import replace

from minions.domain.matching import Capabilities, Lane
from minions.domain.reasons import Candidate, WaitingTask, why_idle, why_waiting

OFFER = Capabilities(frozenset({"embed"}), frozenset({"embedding"}), 16384)
MAC = Candidate(1, "mac1", "idle", "waiting for work", OFFER)
TASK = WaitingTask("tsk_1", "search/p/one", Lane("embed", "embedding", 4096))
LARGE = WaitingTask("tsk_2", "search/p/two", Lane("embed", "embedding", 24576))


def test_a_task_that_an_idle_executor_can_run_does_not_wait() -> None:
    assert why_waiting(TASK, [MAC]) == []
    assert why_idle(MAC, [TASK]) == []


def test_nobody_is_there_or_nothing_waits() -> None:
    assert why_waiting(TASK, []) == ["no executor is online: start one with `minions executor`"]
    assert why_idle(MAC, []) == ["no task has anything to hand out"]


def test_both_sides_name_the_memory() -> None:
    assert why_idle(MAC, [LARGE, replace(LARGE, task="tsk_3")]) == ["2 tasks: need 24 GB, you have 16 GB"]
    small = replace(MAC, number=2, offer=replace(OFFER, memory_mb=8192))
    assert why_waiting(LARGE, [small, MAC]) == [
        "no executor can run it: it needs 24 GB, and the largest of them has 16 GB"
    ]


def test_what_lacks_least_is_named_first_and_not_the_rest() -> None:
    other = replace(MAC, offer=Capabilities(frozenset({"complete"}), frozenset(), 512))
    assert why_waiting(TASK, [other, replace(MAC, offer=replace(OFFER, engines=frozenset()))]) == [
        "no executor can run it: it needs the engine embedding, which none of them has"
    ]


def test_teams_that_an_owner_does_not_serve() -> None:
    closed = replace(MAC, offer=replace(OFFER, teams=frozenset({"ads"})))
    assert why_idle(closed, [TASK, LARGE]) == ["2 tasks of search: its owner does not lend it to them"]
    assert why_waiting(TASK, [closed]) == ["no executor can run it: their owners do not lend them to the team search"]
    assert why_waiting(TASK, [closed, MAC]) == []


def test_paused_busy_and_unwilling_executors_are_told_apart() -> None:
    paused = replace(MAC, number=2, name="mac2", state="paused", reason="on battery")
    busy = replace(MAC, number=3, name="mac3", state="busy", reason="a/b/c")
    leaving = replace(MAC, number=4, name="mac4", leaves={"tsk_1": "the model is not there"})
    assert why_waiting(TASK, [paused, busy, leaving]) == [
        "1 executor that could run it is busy with other work",
        "1 other executor that could run it is leaving it alone for now (mac4: the model is not there)",
        "1 other executor that could run it is not at work (mac2 is paused: on battery)",
    ]
    assert why_waiting(TASK, [paused, replace(paused, number=5, name="mac5"), busy])[1] == (
        "2 other executors that could run it are not at work (mac2 is paused: on battery; mac5 is paused: on battery)"
    )
    assert why_waiting(TASK, [busy]) == ["the one executor that could run it is busy with other work"]
    assert why_idle(paused, [TASK]) == ["it is paused: on battery"]
    assert why_idle(leaving, [TASK]) == ["leaves search/p/one alone for now: the model is not there"]


def test_of_many_a_few_are_named() -> None:
    many = [replace(MAC, number=n, name=f"mac{n}", state="paused", reason="on battery") for n in range(9)]
    (said,) = why_waiting(TASK, many)
    assert said.startswith("9 executors that could run it are not at work (mac0 is paused: on battery; ")
    assert said.endswith(" and 6 more)")


def test_a_pin_that_nobody_at_work_holds_is_named() -> None:
    pinned = replace(TASK, pin={"model_digest": "sha256:0123456789abcdef", "precision": "float32"})
    leaving = replace(MAC, leaves={"tsk_1": "the weights x, not y"})
    said = why_waiting(pinned, [leaving], holders=[7])
    assert said[-1] == (
        "it was begun with the weights sha256:0123456789ab in float32; "
        "no executor that is at work has made a part of it with them"
    )
    busy = replace(MAC, number=7, state="busy")
    assert not any("weights sha256" in each for each in why_waiting(pinned, [leaving, busy], holders=[7]))
