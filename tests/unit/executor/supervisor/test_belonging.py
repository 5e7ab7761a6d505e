"""Which processes may be signalled, and which look like ours and may not."""

from __future__ import annotations

from dataclasses import replace

from minions.executor.supervisor.belonging import Orphans, belonging, whole_groups
from minions.executor.supervisor.processes import Process
from minions.executor.supervisor.record import Identity, Record

RECORD = Record("shard-1", "t0ken", 100, 100, 100, 5000, "boot", "ab")
LEADER = Process(100, 50, 100, 100, 5000, job_token="t0ken")
MEMBER = Process(101, 100, 100, 100, 5001, job_token="t0ken")


def _pids(*processes: Process, launchers: tuple[int, ...] = (), whole: bool = False) -> tuple[list[int], list[int]]:
    found = belonging([RECORD], processes, launchers=launchers, whole_launchers=whole)
    return sorted(each.pid for each in found.ours), sorted(each.pid for each in found.unknown)


def test_the_leader_and_its_group() -> None:
    assert _pids(LEADER, MEMBER) == ([100, 101], [])


def test_descendants_that_left_the_session_and_cleared_their_environment() -> None:
    bare = Process(102, 101, 102, 102, 5002)
    assert _pids(LEADER, MEMBER, bare, Process(103, 102, 102, 102, 5003)) == ([100, 101, 102, 103], [])


def test_an_orphan_is_known_by_its_token() -> None:
    assert _pids(Process(300, 1, 300, 300, 6000, job_token="t0ken")) == ([300], [])


def test_the_number_of_another_process_is_left_alone() -> None:
    """The number was given away: neither it nor its session is ours."""
    other = replace(LEADER, start=9000, job_token=None)
    assert _pids(other, Process(101, 100, 100, 100, 9001)) == ([], [])


def test_number_and_start_without_the_token_are_unknown() -> None:
    assert _pids(replace(LEADER, job_token=None)) == ([], [100])
    assert _pids(replace(LEADER, job_token="another")) == ([], [100])


def test_a_leader_that_dropped_its_token_is_ours_when_our_launcher_is_its_parent() -> None:
    assert _pids(replace(LEADER, job_token=None), launchers=(50,)) == ([100], [])


def test_a_session_whose_leader_is_gone() -> None:
    bare = replace(MEMBER, job_token=None)
    assert _pids(bare) == ([], [101])
    assert _pids(bare, replace(MEMBER, pid=102)) == ([101, 102], [])


def test_a_token_on_a_process_older_than_the_job_proves_nothing() -> None:
    assert _pids(replace(MEMBER, start=4999, sid=7, pgid=7, ppid=1)) == ([], [])


def test_what_is_dead_already_is_neither() -> None:
    assert _pids(replace(LEADER, is_zombie=True)) == ([], [])
    assert _pids(replace(LEADER, is_zombie=True, job_token=None)) == ([], [])


def test_all_children_of_a_launcher_only_when_it_is_to_go() -> None:
    orphan = Process(400, 50, 400, 400, 5100)
    assert _pids(orphan, launchers=(50,)) == ([], [])
    assert _pids(orphan, launchers=(50,), whole=True) == ([400], [])


def test_what_was_ours_stays_ours_when_its_ties_are_cut() -> None:
    process = Process(102, 1, 102, 102, 5002)
    assert [each.pid for each in belonging([RECORD], [process], known={Identity(102, 5002)}).ours] == [102]
    assert belonging([RECORD], [process], known={Identity(102, 5001)}).ours == []


def test_a_group_with_a_stranger_in_it_is_not_ended_by_its_number() -> None:
    stranger = Process(500, 1, 100, 100, 4000)
    assert whole_groups([LEADER, MEMBER], [LEADER, MEMBER]) == {100}
    assert whole_groups([LEADER, MEMBER], [LEADER, MEMBER, stranger]) == set()
    outside = [replace(MEMBER, pgid=0), replace(MEMBER, pid=102, pgid=1)]
    assert whole_groups(outside, outside) == set(), "these numbers mean everybody"


FIRST = {name: Identity(number, 100) for number, name in enumerate("abcd", start=20)}


def _running(*names: str) -> dict[str, Identity | None]:
    return {name: FIRST[name] for name in names}


def test_an_orphan_is_abandoned_when_every_job_that_ran_at_first_sight_has_ended() -> None:
    orphans, orphan = Orphans(), Identity(9, 90)
    assert orphans.abandoned({orphan, FIRST["b"], FIRST["c"]}, _running("b", "c"), "a") == set()
    assert orphans.abandoned({orphan, FIRST["c"], FIRST["d"]}, _running("c", "d"), "b") == set()
    assert orphans.abandoned({orphan, FIRST["d"]}, _running("d"), "c") == {orphan}


def test_an_orphan_of_the_only_job_is_abandoned_with_it() -> None:
    assert Orphans().abandoned({Identity(9, 90)}, {}, "a") == {Identity(9, 90)}


def test_a_job_that_was_just_forked_is_no_orphan() -> None:
    """It is a child of the launcher before its number has come to the supervisor."""
    orphans = Orphans()
    assert orphans.abandoned({FIRST["b"]}, {"b": None}, "a") == set()
    assert orphans.abandoned({FIRST["b"]}, _running("b"), "a") == set()
