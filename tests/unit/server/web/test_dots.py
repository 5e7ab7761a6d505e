"""Dots: what needs a look wins, every subtask is in one, and each state has a shape of its own."""

from __future__ import annotations

import re
from importlib.resources import files

from minions.domain.tally import Cell, Tally
from minions.server.web.views.dots import LOOKS, WORDS, dots

_FILLED = ("queued", "done", "partial", "running", "released", "failed")


def done(*numbers: int) -> dict[int, Cell]:
    return {number: Cell(done=1, rows=2) for number in numbers}


def test_each_subtask_shows_where_it_stands() -> None:
    tally = Tally(0, done(0, 1) | {2: Cell(failed=1)})
    drawn = dots(tally, 8, running=[3], given_back=[4], cancelled=[(6, 2)])
    assert drawn.looks == ["done", "done", "failed", "running", "released", "queued", "ended", "ended"]
    assert drawn.code == "ddfrgqcc"
    assert (drawn.each, drawn.rows) == (1, 1)


def test_many_subtasks_share_a_dot() -> None:
    cells = {0: Cell(done=512), 1: Cell(done=500), 2: Cell(done=511, failed=1)}
    drawn = dots(Tally(9, cells), 512 * 5 + 100, running=[512 * 3 + 4], given_back=[], cancelled=[(512 * 4 + 511, 101)])
    assert drawn.each == 512
    assert drawn.looks == ["done", "partial", "failed", "running", "ended", "ended"]


def test_the_last_dot_is_done_when_its_fewer_subtasks_are() -> None:
    assert dots(Tally(3, {0: Cell(done=8), 1: Cell(done=2)}), 10, [], [], []).looks == ["done", "done"]


def test_no_subtasks_give_no_dots() -> None:
    drawn = dots(Tally(), 0, [], [], [])
    assert (drawn.looks, drawn.paths, drawn.rows) == ([], [], 0)


def test_states_differ_by_shape_and_stay_inside_their_places() -> None:
    tally = Tally(1, {0: Cell(done=2), 1: Cell(done=1), 2: Cell(failed=1)})
    drawn = dots(tally, 14, running=[6], given_back=[8], cancelled=[(10, 2)])
    paths = dict(drawn.paths)
    assert set(paths) == set(LOOKS)
    shapes = [re.sub(r"^M[\d ]+", "", paths[look].split("z")[0]) for look in _FILLED]
    assert len(set(shapes)) == len(_FILLED)
    assert all(int(x) < drawn.columns * 10 for path in paths.values() for x in re.findall(r"M(\d+) ", path))


def test_the_script_under_the_pointer_knows_every_letter() -> None:
    script = (files("minions.server.web") / "static" / "task.js").read_text()
    said = dict(re.findall(r'(\w): "([a-z ]+)"', script.split("const WORDS", 1)[1].split("}", 1)[0]))
    assert said == {word[0]: word for word in WORDS.values()}
    assert len(said) == len(LOOKS)
