"""What every route of the REST API does beside its own work: bodies are read strictly, reads carry an ETag."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from minions.domain.errors import FieldError, ValidationFailed
from minions.server.api.callers import deployment_of
from minions.server.api.conditional import tagged
from minions.server.api.problems import field_errors

Handle = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiRoute(APIRoute):
    """The class of routes that routers of the API are made with."""

    def get_route_handler(self) -> Handle:
        """FastAPI's handler, with this around it."""
        handle = super().get_route_handler()
        if self.methods == {"GET"}:
            return _conditionally(handle)
        if self.body_field is not None:
            message: Any = self.body_field.field_info.annotation
            return _strictly(handle, TypeAdapter(message))
        return handle


def _conditionally(handle: Handle) -> Handle:
    async def answer(request: Request) -> Response:
        return tagged(await handle(request), request.headers.get("if-none-match"))

    return answer


def _strictly(handle: Handle, message: TypeAdapter[Any]) -> Handle:
    """Before FastAPI reads the body, which takes "5" and true for a number, and meets what is no JSON half-way.

    Only for who has a token: nobody else is told what is wrong with a body.
    """

    async def answer(request: Request) -> Response:
        await deployment_of(request).access.token(request.headers.get("authorization"))
        body = await request.body()
        if body:
            _check_type(request.headers.get("content-type", ""))
            said = read_json(body)
            try:
                message.validate_json(json.dumps(said), strict=True)
            except ValidationError as error:
                raise ValidationFailed(field_errors(error.errors(include_url=False))) from None
        return await handle(request)

    return answer


def read_json(body: bytes) -> Any:
    """What a body says; 5.0 is a whole number there. Raises ValidationFailed for what no database could keep either."""
    try:
        return json.loads(body, parse_float=_number, parse_constant=_number)
    except RecursionError:
        says = "it is nested too deeply"
    except UnicodeDecodeError as error:
        says = f"it is no UTF-8: byte {error.start}"
    except json.JSONDecodeError as error:
        says = f"it is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
    except ValueError:
        says = "a number in it is none of JSON's, or too large"
    raise ValidationFailed([FieldError("body", "json_invalid", says)])


def _number(text: str) -> float | int:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return int(number) if number.is_integer() else number


def _check_type(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        says = "send JSON, with the header Content-Type: application/json"
        raise ValidationFailed([FieldError("body", "not_json", says)])
