"""What of a run is left to do, and what to do with what an earlier coordinator handed in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.jobs import Job
from minions.hosts.resume import Finished, OpenTask, Output, remaining, submission

JOBS = [(Job(index, ("run", str(index)), f"out/{index}", {}), f"{index:064}") for index in range(6)]
IDS = [identity for _, identity in JOBS]
END = Finished("a" * 64, is_directory=False, task="tsk_1", index=0)


def test_each_job_is_done_or_fetched_or_run() -> None:
    lies = {0: Output.RIGHT, 1: Output.MISSING, 2: Output.CHANGED, 3: Output.MISSING}
    rest = remaining(
        JOBS,
        range(5),
        {IDS[index]: replace(END, index=index) for index in range(4)},
        lambda job, _: lies[job.index],
        delivered={(IDS[1], END.sha256), (IDS[2], END.sha256)},
    )
    assert rest.done == (0,)
    assert rest.fetch == (3,), "it is in the ledger and never arrived: a coordinator died before"
    assert rest.run == (1, 2, 4), "what was taken away or changed goes back; what was never done is run"
    assert rest.returned == (1, 2)


def test_another_output_that_was_delivered_does_not_count() -> None:
    delivered = {(IDS[0], "b" * 64)}
    rest = remaining(JOBS, [0], {IDS[0]: END}, lambda job, end: Output.MISSING, delivered)
    assert rest.fetch == (0,)


def task(name: str, *open_: int, held: Collection[int] = (), fits: bool = True, is_split: bool = True) -> OpenTask:
    return OpenTask(name, fits, identities(open_), identities(held), is_split)


def identities(places: Collection[int]) -> frozenset[str]:
    return frozenset(IDS[place] for place in places)


def test_what_is_wanted_on_the_same_terms_goes_on() -> None:
    plan = submission(JOBS, [1, 2, 3], [task("a", 1, 2)])
    assert (plan.keep, plan.cancel, plan.submit) == (("a",), (), (3,))


def test_what_nobody_wants_any_more_is_called_back() -> None:
    assert submission(JOBS, [1], [task("a", 1, 2)]).cancel == ("a",)
    assert submission(JOBS, [1], [task("a", 1, fits=False)]).submit == (1,)
    assert submission(JOBS, [], [task("a", 1)]).cancel == ("a",)


def test_a_task_that_is_about_to_end_is_left_alone() -> None:
    plan = submission(JOBS, [1], [task("a")])
    assert (plan.keep, plan.cancel, plan.submit) == ((), (), (1,))


def test_what_an_executor_holds_stays_with_it_and_only_the_rest_is_handed_in_anew() -> None:
    plan = submission(JOBS, [0, 1, 2], [task("a", 0, 1, 2, held=[1], fits=False)])
    assert (plan.wind_down, plan.cancel, plan.submit) == (("a",), (), (0, 2))
    plan = submission(JOBS, [0], [task("a", 0, 1, held=[1])])
    assert (plan.wind_down, plan.cancel, plan.submit) == (("a",), (), (0,)), "a later run may want job 1 again"
    plan = submission(JOBS, [0, 1], [task("a", 0, 1, held=[1], fits=False)], may_run_twice=True)
    assert (plan.wind_down, plan.cancel, plan.submit) == ((), ("a",), (0, 1))


def test_a_task_is_not_kept_whole_while_another_holds_one_of_its_jobs() -> None:
    plan = submission(JOBS, [0, 1], [task("new", 0, 1), task("old", 1, held=[1])])
    assert (plan.keep, plan.cancel, plan.submit) == (("old",), ("new",), (0,))


def test_a_task_whose_jobs_are_not_told_yet_is_called_back() -> None:
    assert submission(JOBS, [1], [task("a", is_split=False)]).cancel == ("a",)


PLACES = st.sets(st.integers(0, 5))


@given(PLACES, st.lists(st.tuples(PLACES, PLACES, st.booleans()), max_size=4), st.booleans())
def test_every_wanted_job_is_in_exactly_one_task(
    wanted: set[int], tasks: list[tuple[set[int], set[int], bool]], may_run_twice: bool
) -> None:
    open_tasks: list[OpenTask] = []
    held: set[int] = set()
    for number, (places, wished, fits) in enumerate(tasks):
        holds = wished - held  # nothing that may not run twice is held in two tasks
        held |= holds
        open_tasks.append(task(str(number), *places | holds, held=holds, fits=fits))
    plan = submission(JOBS, sorted(wanted), open_tasks, may_run_twice=may_run_twice)
    wants = identities(wanted)
    kept = [identity for each in open_tasks if each.task in plan.keep for identity in each.open]
    ending = [identity for each in open_tasks if each.task in plan.wind_down for identity in each.held & wants]
    submitted = [IDS[place] for place in plan.submit]
    assert sorted(kept + ending + submitted) == sorted(wants)
    done = (*plan.keep, *plan.wind_down, *plan.cancel)
    assert sorted(done) == sorted(each.task for each in open_tasks if each.open)
    assert may_run_twice or not any(each.held for each in open_tasks if each.task in plan.cancel)
