"""Dots: what needs a look wins, every subtask is in one, and each state has a shape of its own."""

from __future__ import annotations

import re
from importlib.resources import files

from minions.domain.tally import Cell, Tally
from minions.server.web.views.dots import LOOKS, WORDS, dots


def done(*numbers: int) -> dict[int, Cell]:
    return {number: Cell(done=1, rows=2) for number in numbers}


def test_each_subtask_shows_where_it_stands() -> None:
    tally = Tally(0, done(0, 1) | {2: Cell(failed=1)})
    drawn = dots(tally, 8, running=[3], given_back=[4], cancelled=[(6, 2)])
    assert drawn.looks == ["done", "done", "failed", "running", "released", "queued", "ended", "ended"]
    assert drawn.code == "ddsrgqcc"
    assert (drawn.each, drawn.rows) == (1, 1)
    assert drawn.legend({}) == [
        ("done", "2 done"), ("running", "1 running"), ("released", "1 given back"), ("failed", "1 set aside"),
        ("ended", "2 cancelled"), ("queued", "1 queued"),
    ]  # fmt: skip


def test_many_subtasks_share_a_dot() -> None:
    cells = {0: Cell(done=512), 1: Cell(done=500), 2: Cell(done=511, failed=1)}
    drawn = dots(Tally(9, cells), 512 * 5 + 100, running=[512 * 3 + 4], given_back=[], cancelled=[(512 * 4 + 511, 101)])
    assert drawn.each == 512
    assert drawn.looks == ["done", "partial", "failed", "running", "ended", "ended"]
    counts = {"done": 1523, "failed": 1, "running": 1, "ended": 101, "queued": 0}
    assert drawn.legend(counts) == [
        ("done", "1,523 done"), ("partial", "partly done"), ("running", "1 running"), ("failed", "1 set aside"),
        ("ended", "101 cancelled"),
    ]  # fmt: skip


def test_the_last_dot_is_done_when_its_fewer_subtasks_are() -> None:
    assert dots(Tally(3, {0: Cell(done=8), 1: Cell(done=2)}), 10, [], [], []).looks == ["done", "done"]


def test_what_is_done_lies_on_one_ground_a_run() -> None:
    drawn = dots(Tally(0, {n: Cell(done=1) for n in (0, 1, 3, 19, 20, 21)}), 30, [], [], [])
    assert drawn.columns == 20
    assert drawn.ground == "M0 0h20v10h-20zM30 0h10v10h-10zM190 0h10v10h-10zM0 10h20v10h-20z"


def test_no_subtasks_give_no_dots() -> None:
    drawn = dots(Tally(), 0, [], [], [])
    assert (drawn.looks, drawn.paths, drawn.ground, drawn.rows) == ([], [], "", 0)


def test_states_have_the_shapes_of_their_marks_and_stay_inside_their_places() -> None:
    tally = Tally(1, {0: Cell(done=2), 1: Cell(done=1), 2: Cell(failed=1)})
    drawn = dots(tally, 14, running=[6], given_back=[8], cancelled=[(10, 2)])
    paths = dict(drawn.paths)
    assert set(paths) == set(LOOKS)
    shapes = {look: re.sub(r"^M[\d. ]+", "", path.split("M")[1]) for look, path in paths.items()}
    assert len(set(shapes.values())) == len(LOOKS)
    assert all(float(x) < drawn.columns * 10 for path in paths.values() for x in re.findall(r"M([\d.]+) ", path))
    marks = (files("minions.server.web") / "templates" / "parts" / "marks.html").read_text()
    for look in LOOKS:
        mark = re.search(rf'id="mark-{look}".*', marks)
        assert mark, look
        is_stroke = " stroke=" in mark[0]
        style = re.search(rf"\.dot\.{look} {{(.*?)}}", STYLES)
        assert style, look
        assert ("fill: none" in style[1]) is is_stroke, look
        # One state has one colour: what the mark beside the word has.
        colours = [re.findall(r"var\((--[\w-]+)\)", each) for each in (style[1], _colour_of_state(look))]
        assert colours[0] == colours[1], look


STYLES = "".join((files("minions.server.web") / "static" / name).read_text() for name in ("app.css", "tasks.css"))


def _colour_of_state(look: str) -> str:
    """The last rule for the mark of a state, which is that of its word where it has none of its own."""
    rules = re.findall(r"([^{}]+){([^{}]*)}", STYLES)
    own = [body for names, body in rules if f".state.{look} .mark" in names]
    return (own or [body for names, body in rules if re.search(rf"\.state\.{look}\b(?! )", names.strip())])[-1]


def test_the_script_under_the_pointer_knows_every_letter() -> None:
    script = (files("minions.server.web") / "static" / "task.js").read_text()
    said = dict(re.findall(r'(\w): "([a-z ]+)"', script.split("const WORDS", 1)[1].split("}", 1)[0]))
    assert said == {word[0]: word for word in WORDS.values()}
    assert len(said) == len(LOOKS)
