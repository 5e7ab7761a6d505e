"""The form for a new token."""

from __future__ import annotations

import pytest

from minions.domain.errors import FieldError, ValidationFailed
from minions.server.web.pages.settings import by_field, token_request, zones


def given(**changed: str) -> dict[str, str]:
    return {"name": "laptop", "scope": "submit", "teams": "", "expires_days": ""} | changed


def test_empty_fields_mean_all_teams_and_never() -> None:
    request = token_request(given())
    assert (request.teams, request.expires_days) == (None, None)


def test_teams_are_separated_by_blanks_or_commas() -> None:
    assert token_request(given(teams=" search, care  ads ")).teams == ["search", "care", "ads"]
    assert token_request(given(expires_days="90")).expires_days == 90


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": ""}, "name"),
        ({"scope": "god"}, "scope"),
        ({"expires_days": "soon"}, "expires_days"),
        ({"expires_days": "-1"}, "expires_days"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field(changed: dict[str, str], field: str) -> None:
    with pytest.raises(ValidationFailed) as raised:
        token_request(given(**changed))
    assert list(by_field(raised.value.errors)) == [field]


def test_the_first_error_of_a_field_stands_for_it() -> None:
    errors = [FieldError("teams[0]", "bad_name", "first"), FieldError("teams[1]", "bad_name", "second")]
    assert by_field(errors) == {"teams": "first"}


def test_zones_are_places() -> None:
    assert {"UTC", "Europe/Oslo", "America/Argentina/Buenos_Aires"} <= set(zones())
    assert not {"Etc/GMT+1", "posixrules", "SystemV/EST5"} & set(zones())
