"""Reads that need not be sent again: the ETag of an answer, and 304 for who has it already."""

from __future__ import annotations

import hashlib

from starlette.responses import Response

_TAG_DIGITS = 32


def tag_of(body: bytes) -> str:
    """The ETag of a body: a strong one, since equal tags mean equal bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:_TAG_DIGITS]}"'


def has_already(tag: str, if_none_match: str | None) -> bool:
    """Whether If-None-Match names this tag, compared weakly as RFC 9110 wants it; pure."""
    if if_none_match is None:
        return False
    known = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return known == ["*"] or tag in known


def tagged(response: Response, if_none_match: str | None) -> Response:
    """With its tag, or 304 in its place. The answer is made in any case: this saves sending it, not reading it."""
    if response.status_code != 200:
        return response
    tag = tag_of(bytes(response.body))
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if has_already(tag, if_none_match):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response
