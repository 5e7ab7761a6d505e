"""Names, preferences and public ids."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import NotFound
from minions.domain.names import NAME, Preference, TaskName, number_of, public_id

names = st.from_regex(NAME, fullmatch=True)


@pytest.mark.parametrize("name", ["a", "0", "a.b_c-d", "x" * 63])
def test_names(name: str) -> None:
    assert TaskName(name, name, name).errors() == []


@pytest.mark.parametrize("name", ["", "A", "-a", ".", "a b", "a/b", "ä", "x" * 64, "a\n", "a\x00", "*"])
def test_what_is_no_name_is_told_for_each_part(name: str) -> None:
    assert [error.field for error in TaskName(name, "ok", name).errors()] == ["team", "task_name"]


@given(st.integers(0, 2**63 - 1))
def test_an_id_is_read_as_it_was_written(number: int) -> None:
    assert number_of("tsk", public_id("tsk", number)) == number


@given(st.lists(st.integers(0, 2**40 - 1), max_size=20))
def test_ids_sort_as_their_numbers(numbers: list[int]) -> None:
    assert sorted(public_id("tsk", each) for each in numbers) == [public_id("tsk", each) for each in sorted(numbers)]


@pytest.mark.parametrize(
    "text", ["", "tsk", "tsk_", "exe_00000001", "tsk_i", "tsk_0000000A", "tsk_-1", "tsk_" + "z" * 13, "tsk_" + "0" * 14]
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(NotFound, match="one looks like tsk_0000001a"):
        number_of("tsk", text)


@given(st.text(max_size=20))
def test_any_text_is_an_id_or_is_refused(text: str) -> None:
    with suppress(NotFound):
        assert 0 <= number_of("tsk", text) < 2**63


@given(names, names, names)
def test_a_preference_covers_its_task_and_what_it_leaves_open(team: str, project: str, task: str) -> None:
    name = TaskName(team, project, task)
    for text in (f"{team}/{project}/{task}", f"{team}/{project}", team, "*", f"*/{project}", f"{team}/*/{task}"):
        preference = Preference.parse(text)
        assert preference.covers(name)
        assert Preference.parse(str(preference)) == preference
    assert not Preference.parse(f"{team}/{project}/{task}").covers(TaskName(team, project, "x" + task[:62] + "y"[:1]))
    assert not Preference(team=team + "x").covers(name)


@pytest.mark.parametrize("text", ["", "a/b/c/d", "A", "a//c", "a/", "a b", "**"])
def test_what_is_no_preference(text: str) -> None:
    with pytest.raises(ValueError, match="is no preference: write team/project/task"):
        Preference.parse(text)


def test_what_is_left_of_a_preference_for_an_executor_that_serves_some_teams() -> None:
    anything, speech = Preference.parse("*/papers"), Preference.parse("speech/papers")
    assert anything.within(None) == [anything]
    assert [str(each) for each in anything.within({"vision", "speech"})] == ["speech/papers/*", "vision/papers/*"]
    assert speech.within({"speech"}) == [speech]
    assert speech.within({"vision"}) == []
