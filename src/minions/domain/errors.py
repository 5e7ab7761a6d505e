"""The one error tree: a docstring is the default message, `hint` says what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class MinionsError(Exception):
    """Something went wrong in Minions."""

    hint: ClassVar[str] = ""
    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (self.__doc__ or "").strip().splitlines()[0]
        self.advice = self.hint if hint is None else hint
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one field of a request; `code` is stable, `message` is for people."""

    field: str
    code: str
    message: str


class ValidationFailed(MinionsError):
    """The request is not valid."""

    code = "validation_failed"
    hint = "Correct what is named, and try again."

    def __init__(self, errors: list[FieldError], *, hint: str | None = None) -> None:
        self.errors = errors
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors), hint=hint)


class NotFound(MinionsError):
    """There is no such thing here."""

    code = "not_found"


class Conflict(MinionsError):
    """The request contradicts what is already stored."""

    code = "conflict"


class AccessDenied(MinionsError):
    """The token is missing, wrong, expired, or does not reach this."""

    code = "access_denied"
    hint = "Set MINIONS_TOKEN or pass --token-file FILE; `minions tokens create` makes a token."


class RequestTooLarge(MinionsError):
    """The request is larger than any may be."""

    code = "request_too_large"
    hint = "Put data into the object store (POST /api/v1/uploads gives a link for it) and name it in the request."


class TokenRefused(AccessDenied):
    """The token is missing, unknown, expired or revoked."""


class AcquirementLost(MinionsError):
    """Another executor holds this subtask now."""

    code = "acquirement_lost"
    hint = "Drop the output; the subtask was handed on."


class SessionReplaced(MinionsError):
    """This executor registered again from another process."""

    code = "session_replaced"
    hint = "One state directory serves one executor: give the second its own --state."


class Unavailable(MinionsError):
    """A part that this needs does not answer right now."""

    code = "unavailable"
    hint = "Nothing is lost; the same request can be sent again."


class DoesNotFit(Conflict):
    """The model needs more than this machine lends."""

    code = "does_not_fit"
    hint = "Another executor with more memory, or more room for models, can take it."


class DiskFull(Unavailable):
    """The disk has no room for this."""

    code = "disk_full"
    hint = "Free some space; work goes on by itself."


class InputUnreadable(MinionsError):
    """The input is not what it says it is."""

    code = "input_unreadable"


class ObjectMissing(NotFound):
    """The object is not in the object store."""

    code = "object_missing"


class ModelUnavailable(MinionsError):
    """The model cannot be loaded on this machine."""

    code = "model_unavailable"


class EngineFailed(MinionsError):
    """The engine stopped before it had an answer."""

    code = "engine_failed"


class ParametersRefused(EngineFailed):
    """The engine refuses every row with what the task asks of it."""

    code = "parameters_refused"


class ResultsDamaged(MinionsError):
    """A part does not have the hash that was committed for it."""

    code = "results_damaged"
    hint = "The object was changed or cut after it was committed; restore it, or run the task again."
