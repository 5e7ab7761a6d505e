"""When a reader has an answer already."""

from __future__ import annotations

import pytest
from starlette.responses import Response

from minions.server.api.conditional import has_already, tag_of, tagged

TAG = tag_of(b"body")


@pytest.mark.parametrize("sent", [TAG, f"W/{TAG}", f'"other", {TAG}', f'"other",W/{TAG} ', "*"])
def test_who_has_it(sent: str) -> None:
    assert has_already(TAG, sent)
    answer = tagged(Response(b"body"), sent)
    assert (answer.status_code, answer.body, answer.headers["etag"]) == (304, b"", TAG)
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("sent", [None, "", '"other"', TAG.strip('"'), f"{TAG}x", '"*"'])
def test_who_has_it_not(sent: str | None) -> None:
    assert not has_already(TAG, sent)
    answer = tagged(Response(b"body"), sent)
    assert (answer.status_code, answer.body, answer.headers["etag"]) == (200, b"body", TAG)


def test_another_body_has_another_tag_and_an_error_has_none() -> None:
    assert tag_of(b"bodY") != TAG
    assert "etag" not in tagged(Response(b"body", 404), "*").headers
