"""The OpenAPI document: what FastAPI reads from the routes, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minions.wire.problems import MEDIA_TYPE, Problem

DESCRIPTION = """
The interface of a Minion Server for those who hand in work; `docs/rest.md` goes through it with curl.

**Access.** Every call but `/healthz` and `/readyz` carries `Authorization: Bearer TOKEN`. A token that is missing,
unknown, expired or revoked gets 401, one that does not reach what is asked for gets 403. What belongs to another team
is answered with 404, as if it were not there.

**Values.** Ids begin with what they are of: `tsk_`, `exe_`, `upl_`, `tok_`, `led_`. Times are RFC 3339, in UTC. Answers
may get new fields; a request with a field that is not known is refused.

**Lists** come as pages `{data, has_more, first_id, last_id}`: ask again with `after=last_id` while `has_more`.

**Errors** are problem documents (RFC 9457, `application/problem+json`). `code` is for programs and stays; `detail` and
`hint` are for people; `errors` has one entry for each wrong field; `request_id` finds the request in the server's log.

**Conditional reads.** What a GET answers carries an `ETag`. Sent back in `If-None-Match`, it gets 304 and no body while
the answer is the same. Links are signed anew each time: an answer that has some is never the same.

**Sending again.** 503 says in `Retry-After` after how many seconds; nothing was done then. When an answer was lost on
the way:

- a submission with the same `Idempotency-Key` answers with the task that the first one made;
- pausing, resuming, cancelling and revoking change nothing the second time;
- a retry that is under way is told of, and not begun anew; with `retries` one that has ended neither;
- abandoning gives back what the executor holds by then: look at it first, since it may have come back;
- an upload, a token or a sign-in link is made once more, and the first is of no use to anybody, since its link or its
  secret was in the answer that was lost. An upload that no task names is removed after some days; a link expires; a
  token that was never used shows in the list, to be revoked.
""".strip()

_REFUSALS = {
    401: "The token is missing, unknown, expired or revoked.",
    403: "The token does not reach this.",
    404: "There is no such thing, or it is another team's.",
    409: "It contradicts what is stored already; `detail` says how.",
    413: "The body is larger than 16 MiB.",
    422: "The request is not valid; `errors` names every wrong field.",
    503: "The database or the object store does not answer; nothing was done.",
}
_PREFIX = "/api/v1"
_REQUEST_ID = {"schema": {"type": "string"}, "description": "Finds this request in the server's log."}
_RETRY_AFTER = {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds to wait before another try."}
_ETAG = {"schema": {"type": "string"}, "description": "Of exactly this body: see If-None-Match."}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "An ETag that was answered before: 304 while the answer is the same.",
}


def refusals(*statuses: int, description: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Problem documents that a route answers beside those that follow from its form: for its `responses`."""
    return {status: _refusal(status, description) for status in statuses}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add to FastAPI's document what all operations of a kind answer. Changes it, and returns it."""
    for path, method, operation in _operations(document):
        responses = operation["responses"]
        responses.pop("422", None)  # FastAPI's own form of it, which is never answered here
        for status in _statuses(path, operation):
            responses.setdefault(str(status), _refusal(status))
        if method == "get" and "application/json" in responses.get("200", {}).get("content", {}):
            _make_conditional(operation)
        for response in responses.values():
            response.setdefault("headers", {})["X-Request-Id"] = _REQUEST_ID
        operation["responses"] = dict(sorted(responses.items()))
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs") | {"Problem": problem}
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _statuses(path: str, operation: dict[str, Any]) -> list[int]:
    """What an operation of this form can be refused with."""
    needs_token = "security" in operation
    takes_values = "requestBody" in operation or any(each["in"] != "path" for each in operation.get("parameters", []))
    found = [401, 403, 503] if needs_token else []
    return found + [404] * ("{" in path) + [413] * ("requestBody" in operation) + [422] * takes_values


def _refusal(status: int, description: str | None = None) -> dict[str, Any]:
    headers = {"headers": {"Retry-After": _RETRY_AFTER}} if status == 503 else {}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description or _REFUSALS[status], "content": content, **headers}


def _make_conditional(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses["200"].setdefault("headers", {})["ETag"] = _ETAG
    responses["304"] = {"description": "It is as it was: see If-None-Match.", "headers": {"ETag": _ETAG}}
    operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
