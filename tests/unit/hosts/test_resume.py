"""What of a run is left to do, and what to do with what an earlier coordinator handed in."""

from __future__ import annotations

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


def task(name: str, *open_: int, fits: bool = True) -> OpenTask:
    return OpenTask(name, fits, frozenset(IDS[place] for place in open_))


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


PLACES = st.sets(st.integers(0, 5))


@given(PLACES, st.lists(st.tuples(PLACES, st.booleans()), max_size=4))
def test_every_wanted_job_is_in_exactly_one_task(wanted: set[int], tasks: list[tuple[set[int], bool]]) -> None:
    open_tasks = [task(str(number), *places, fits=fits) for number, (places, fits) in enumerate(tasks)]
    plan = submission(JOBS, sorted(wanted), open_tasks)
    kept = [identity for each in open_tasks if each.task in plan.keep for identity in each.open]
    submitted = [IDS[place] for place in plan.submit]
    assert sorted(kept + submitted) == sorted(IDS[place] for place in wanted)
    assert not set(plan.keep) & set(plan.cancel)
