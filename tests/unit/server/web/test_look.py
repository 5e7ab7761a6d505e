"""How a visitor wants pages, from cookies that anybody may have written."""

from __future__ import annotations

import pytest

from minions.server.web.look import read_look


def test_without_cookies_it_follows_the_system_in_utc() -> None:
    look = read_look(None, None)
    assert (look.theme, look.zone.key, look.chosen_zone) == ("auto", "UTC", None)


def test_a_chosen_zone_comes_before_the_browsers() -> None:
    look = read_look("dark:Europe/Oslo", "Asia/Tokyo")
    assert (look.theme, look.zone.key, look.chosen_zone) == ("dark", "Europe/Oslo", "Europe/Oslo")
    assert read_look(look.cookie(), None) == look


def test_the_browsers_zone_is_followed_and_not_chosen() -> None:
    look = read_look("light:", "Asia/Tokyo")
    assert (look.theme, look.zone.key, look.chosen_zone) == ("light", "Asia/Tokyo", None)


@pytest.mark.parametrize("cookie", ["", "neon", "neon:Nowhere/City", ":::", "dark'\"><script>:x"])
def test_what_is_not_understood_is_as_if_it_were_not_there(cookie: str) -> None:
    look = read_look(cookie, "<script>")
    assert (look.theme, look.zone.key, look.chosen_zone) == ("auto", "UTC", None)
