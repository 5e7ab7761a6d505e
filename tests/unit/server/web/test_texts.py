"""What pages write for numbers, sizes and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from minions.server.web import texts

NOW = datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (1412, "1,412"),
        (9.66, "9.7"),
        (9.0, "9"),
        (1412.4, "1,412"),
        (0.003, "under 0.1"),
        (0.1, "0.1"),
        (None, "–"),
    ],
)
def test_count(number: float, said: str) -> None:
    assert texts.count(number) == said
    assert texts.count(None) == "–"


def test_counted_has_the_plural() -> None:
    assert [texts.counted(number, "row") for number in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert texts.counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("number", "said"), [(9999, "9,999"), (12_300, "12.3 k"), (1_200_000, "1.2 M"), (3e9, "3 G"), (0.5, "0.5")]
)
def test_short_count(number: float, said: str) -> None:
    assert plain(texts.short_count(number)) == said


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 B"), (999, "999 B"), (1600, "1.6 kB"), (1_600_000, "1.6 MB"), (512e9, "512 GB")]
)
def test_size(size: float, said: str) -> None:
    assert plain(texts.size(int(size))) == said


def test_memory() -> None:
    assert [plain(texts.memory(each)) for each in (None, 812, 16384, 18_500)] == ["–", "812 MB", "16 GB", "18.1 GB"]


def test_what_is_not_all_is_never_100_percent() -> None:
    assert [plain(texts.share(each)) for each in (0, 0.649, 0.9999999, 1)] == ["0 %", "64.9 %", "99.9 %", "100 %"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3600 * 3 + 60 * 20, "3 h 20 min"),
        (86400 * 2 + 300, "2 d"),
        (-4, "0 s"),
    ],
)
def test_span(seconds: float, said: str) -> None:
    assert texts.span(seconds) == said


def test_took() -> None:
    assert [texts.took(each) for each in (None, 41, 72, 3723)] == ["–", "0:41", "1:12", "1:02:03"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        ((10, 90), "under 2 min"),
        ((240, 360), "4–6 min"),
        ((3500, 7300), "1–3 h"),
        ((86400 * 3, 86400 * 3), "3 d"),
    ],
)
def test_remaining_is_a_range(seconds: tuple[int, int] | None, said: str) -> None:
    assert texts.remaining(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "just now"), (4, "just now"), (40, "40 s ago"), (125, "2 min ago"), (-7200, "in 2 h"), (86400 * 3, "3 d ago")],
)
def test_ago(seconds: float, said: str) -> None:
    assert texts.ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_never_is_said() -> None:
    assert texts.ago(None, NOW) == "never"


def test_a_state_that_began_in_the_future_of_this_clock_lasts_0_s() -> None:
    assert texts.lasting(NOW + timedelta(seconds=3), NOW) == "for 0 s"
    assert texts.lasting(NOW - timedelta(minutes=3), NOW) == "for 3 min"


def test_absolute_times_are_in_the_visitors_zone() -> None:
    zone = texts.zone_of("Asia/Tokyo")
    assert zone is not None
    assert texts.absolute(NOW, zone) == "30 Nov 2026, 10:02:03 JST"
    assert texts.iso(NOW.astimezone(zone)) == "2026-11-30T01:02:03Z"


@pytest.mark.parametrize("name", [None, "", "Nowhere/City", "../../etc/passwd", "/etc/localtime", "x" * 500, "\0"])
def test_what_is_no_zone_is_none(name: str | None) -> None:
    assert texts.zone_of(name) is None


def test_sentence() -> None:
    assert [
        texts.sentence(each)
        for each in ("", "wait a little", "Done.", " it ran? ", "a.jsonl is empty", "'x y/z' is not a name")
    ] == [
        "",
        "Wait a little.",
        "Done.",
        "It ran?",
        "a.jsonl is empty.",
        "'x y/z' is not a name.",
    ]
    assert not texts.begins_with_word("'x y/z' is not a name")  # a capital X would be the very mistake
    assert texts.begins_with_word("isn't it")


def test_what_an_executor_works_on() -> None:
    tasks = ["a/b/one", "a/b/two", "a/c/three", "x/y/four"]
    assert [texts.works_on(tasks[:number]) for number in range(1, 5)] == [
        "one", "one and two", "one, two and 1 more", "one, two and 2 more",
    ]  # fmt: skip
