"""Links: nothing but what was signed, and not for longer."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import AccessDenied
from minions.objects import links

SECRET = b"0123456789abcdef"
KEY = "tasks/tsk_1/parts/a"


def test_a_signature_opens_what_it_was_made_for() -> None:
    links.verify(SECRET, "GET", KEY, 100, links.sign(SECRET, "GET", KEY, 100), now=99.9)
    links.verify(SECRET, "HEAD", KEY, 100, links.sign(SECRET, "GET", KEY, 100), now=0)


@pytest.mark.parametrize(
    ("secret", "method", "key", "expires_at"),
    [
        (b"another secret, as long", "GET", KEY, 100),
        (SECRET, "PUT", KEY, 100),
        (SECRET, "DELETE", KEY, 100),
        (SECRET, "get", KEY, 100),
        (SECRET, "GET", KEY + "b", 100),
        (SECRET, "GET", "../" + KEY, 100),
        (SECRET, "GET", KEY, 101),
    ],
)
def test_it_opens_nothing_else(secret: bytes, method: str, key: str, expires_at: int) -> None:
    with pytest.raises(AccessDenied):
        links.verify(secret, method, key, expires_at, links.sign(SECRET, "GET", KEY, 100), now=0)


def test_it_does_not_write_by_head() -> None:
    with pytest.raises(AccessDenied):
        links.verify(SECRET, "HEAD", KEY, 100, links.sign(SECRET, "PUT", KEY, 100), now=0)


def test_it_expires() -> None:
    with pytest.raises(AccessDenied, match="expired"):
        links.verify(SECRET, "GET", KEY, 100, links.sign(SECRET, "GET", KEY, 100), now=100)


@given(st.text())
def test_no_other_signature_fits(signature: str) -> None:
    if signature != links.sign(SECRET, "GET", KEY, 100):
        with pytest.raises(AccessDenied):
            links.verify(SECRET, "GET", KEY, 100, signature, now=0)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        links.sign(b"", "GET", KEY, 100)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1", "https://minions.example/below/", None])
def test_a_link_holds_all_that_is_needed(base_url: str | None) -> None:
    key = "uploads/ü 1/100%?#.jsonl"
    parts = urlsplit(links.link(base_url, SECRET, "PUT", key, 100))
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert unquote(parts.path).endswith(f"/objects/{key}")
    assert parts.fragment == ""
    links.verify(SECRET, query["method"], key, int(query["expires"]), query["signature"], now=0)
