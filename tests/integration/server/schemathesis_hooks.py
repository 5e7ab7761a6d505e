"""What schemathesis must not do to the server that it calls, and what it needs to get further than the door."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import schemathesis

_OWN_TOKEN = "tok_00000001"
_ANOTHER = "tok_zzzzzzzz"
_UPLOAD = os.environ["UPLOAD_THAT_IS_THERE"]
_hook = cast("Callable[[Callable[..., Any]], Any]", cast("Any", schemathesis).hook)  # its type is partial


@_hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """The token that it calls with stays: without it, all that follows would be 401."""
    place: dict[str, Any] = case.path_parameters or {}
    if case.method == "DELETE" and place.get("token_id") == _OWN_TOKEN:
        place["token_id"] = _ANOTHER


@_hook
def map_case(context: Any, case: Any) -> Any:
    """A submission that is right by its form gets an input that is there, and a model and columns that fit."""
    if case.path != "/api/v1/tasks" or case.method != "POST" or not case.meta.generation.mode.is_positive:
        return case
    parameters: dict[str, Any] = case.body["parameters"]
    fits: dict[str, dict[str, Any]] = {
        "embed": {"column": "text", "prompt_name": None},
        "complete": {"prompt": "{text}", "context_tokens": 2**20},
    }
    if parameters["kind"] in fits:
        rows: dict[str, Any] = {"id": None, "keep": [], **fits[parameters["kind"]]}
        model = "hf:org/name" if parameters["kind"] == "embed" else "ollama:name"
        case.body |= {"inputs": [_UPLOAD], "model": model, "input_format": None, "parameters": parameters | rows}
    return case
