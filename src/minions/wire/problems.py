"""Problem documents (RFC 9457): what the server answers when something is wrong."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from minions.domain.errors import (
    AccessDenied,
    AcquirementLost,
    Conflict,
    FieldError,
    InputUnreadable,
    MinionsError,
    ModelUnavailable,
    NotFound,
    ObjectMissing,
    RequestTooLarge,
    SessionReplaced,
    TokenRefused,
    Unavailable,
    ValidationFailed,
)
from minions.wire.base import Answer

MEDIA_TYPE = "application/problem+json"

_STATUS: list[tuple[type[MinionsError], int]] = [
    (ValidationFailed, 422),
    (TokenRefused, 401),
    (AccessDenied, 403),
    (NotFound, 404),
    (AcquirementLost, 409),
    (SessionReplaced, 409),
    (Conflict, 409),
    (InputUnreadable, 422),
    (RequestTooLarge, 413),
    (Unavailable, 503),
]
_BY_CODE: dict[str, type[MinionsError]] = {
    kind.code: kind
    for kind in (
        AccessDenied, AcquirementLost, Conflict, InputUnreadable, ModelUnavailable, NotFound, ObjectMissing,
        RequestTooLarge, SessionReplaced, Unavailable,
    )
}  # fmt: skip


class ProblemField(Answer):
    """One wrong field."""

    field: str
    code: str
    message: str


class Problem(Answer):
    """A problem document. `code` is stable; `hint` is the way out; `errors` has one entry a field."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    request_id: str = ""
    errors: list[ProblemField] = Field(default_factory=list[ProblemField])


def problem_of(error: MinionsError, request_id: str) -> Problem:
    """The document for an error."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    fields = error.errors if isinstance(error, ValidationFailed) else []
    return Problem(
        title=(type(error).__doc__ or "").strip().splitlines()[0].rstrip("."),
        status=status,
        detail=error.message,
        code=error.code,
        hint=error.advice,
        request_id=request_id,
        errors=[ProblemField(field=e.field, code=e.code, message=e.message) for e in fields],
    )


def error_of(status: int, document: dict[str, Any]) -> MinionsError:
    """The error that a client raises for a problem document, or for an answer that is none."""
    code = str(document.get("code", ""))
    detail = str(document.get("detail") or document.get("title") or f"the server answered {status}")
    if code == ValidationFailed.code:
        fields = [ProblemField.model_validate(entry) for entry in document.get("errors", [])]
        return ValidationFailed([FieldError(f.field, f.code, f.message) for f in fields])
    kind = _BY_CODE.get(code)
    if kind is None:
        kind = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict}.get(status, MinionsError)
        kind = Unavailable if status in (429, 502, 503, 504) else kind
    hint = document.get("hint")
    return kind(detail, hint=str(hint) if hint else None)
