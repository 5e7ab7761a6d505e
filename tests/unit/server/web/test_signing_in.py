"""Sessions: what a cookie is worth, and where one goes after signing in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.server.web.origin import comes_from_here
from minions.server.web.signing_in import cookie_name, local_path, session_cookie, token_of_session

SECRET = b"s" * 32
NOW = 1_800_000_000.0


def test_a_session_names_its_token_until_it_ends() -> None:
    cookie = session_cookie(SECRET, 42, int(NOW) + 10)
    assert token_of_session(SECRET, cookie, NOW) == 42
    assert token_of_session(SECRET, cookie, NOW + 9.5) == 42
    assert token_of_session(SECRET, cookie, NOW + 10) is None


def test_another_deployments_session_is_none() -> None:
    assert token_of_session(b"t" * 32, session_cookie(SECRET, 42, int(NOW) + 10), NOW) is None


@pytest.mark.parametrize(("old", "new"), [("1.42.", "1.43."), ("1.42.18", "1.42.19"), ("1.42.", "2.42.")])
def test_a_session_that_was_changed_is_none(old: str, new: str) -> None:
    assert token_of_session(SECRET, session_cookie(SECRET, 42, int(NOW) + 10).replace(old, new, 1), NOW) is None


@given(st.text(max_size=200))
def test_anything_else_is_none(cookie: str) -> None:
    assert token_of_session(SECRET, cookie, NOW) is None


def test_deployments_on_one_host_do_not_share_a_cookie() -> None:
    assert cookie_name(SECRET, False) != cookie_name(b"t" * 32, False)
    assert cookie_name(SECRET, True).startswith("__Host-")


@pytest.mark.parametrize("path", ["/", "/tasks", "/tasks/tsk_00000001?tab=errors", "/executors?q=caf%C3%A9"])
def test_a_path_of_ours_is_kept(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        None,
        "",
        "tasks",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a\r\nSet-Cookie: x",
        "/ x",
        "/sign-in?next=/",
    ],
)
def test_anything_else_leads_to_the_overview(path: str | None) -> None:
    assert local_path(path) == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "https://minions.example", "host": "minions.example"},
        {"sec-fetch-site": "same-origin", "host": "minions.example"},
        {"origin": "http://127.0.0.1:7878", "host": "127.0.0.1:7878"},
    ],
)
def test_our_own_pages_may_post(headers: dict[str, str]) -> None:
    assert comes_from_here(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "minions.example"},
        {"sec-fetch-site": "cross-site", "origin": "https://minions.example", "host": "minions.example"},
        {"sec-fetch-site": "same-site", "origin": "https://minions.example", "host": "minions.example"},
        {"sec-fetch-site": "none", "host": "minions.example"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example", "host": "minions.example"},
        {"origin": "null", "host": "minions.example"},
        {"origin": "http://127.0.0.1:9999", "host": "127.0.0.1:7878"},
        {"origin": "https://minions.example.evil.example", "host": "minions.example"},
    ],
)
def test_nobody_else_may(headers: dict[str, str]) -> None:
    assert not comes_from_here(headers)
