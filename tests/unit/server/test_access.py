"""Tokens: which of two reaches as much as the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minions.server.access import Token, reaches_as_much

EVERYTHING = Token(token_id=1, name="admin", scope="admin", teams=None)


def token(scope: str, *teams: str) -> Token:
    return replace(EVERYTHING, token_id=2, scope=scope, teams=teams or None)


@pytest.mark.parametrize(
    ("held", "other", "as_much"),
    [
        (token("submit", "search"), token("submit", "search"), True),
        (EVERYTHING, token("submit", "search"), True),
        (token("submit"), token("submit", "search"), True),
        (token("submit", "search", "docs"), token("submit", "docs"), True),
        (token("submit", "search"), token("submit", "docs"), False),
        (token("submit", "search"), token("submit"), False),
        (token("submit"), token("admin"), False),
        (token("admin", "search"), token("submit"), False),
        (token("admin", "search"), EVERYTHING, False),
    ],
)
def test_a_token_reaches_as_much_by_scope_and_by_teams(held: Token, other: Token, as_much: bool) -> None:
    assert reaches_as_much(replace(held, token_id=3), other) is as_much


def test_a_token_reaches_as_much_as_itself() -> None:
    assert reaches_as_much(token("submit", "search"), token("submit", "search"))
