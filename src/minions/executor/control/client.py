"""The owner's end of the control channel: finds the executor of a state directory, and speaks to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from minions.domain.errors import AccessDenied, FieldError, MinionsError, NotFound, ValidationFailed
from minions.executor.control.messages import Entries, Link, OrderRequest, PreferRequest, Status
from minions.executor.places import CONTROL_FILE

Message = TypeVar("Message", bound=BaseModel)
_CALL_SECONDS = 15.0


class ControlClient:
    """The executor that runs with this state directory. Every call raises NotFound when none does."""

    def __init__(self, state: Path, others: Sequence[Path] = ()) -> None:
        """others: where executors may run that could be meant; named when none runs with this state directory."""
        self._state = state
        self._others = others

    def status(self) -> Status:
        return self._call("GET", "status", Status)

    def history(self, most: int) -> list[dict[str, Any]]:
        return self._call("GET", f"history?limit={most}", Entries).data

    def order(self, request: OrderRequest) -> Status:
        """Pause, finish or resume. Returns once it has taken effect, or after a few seconds."""
        return self._call("POST", "order", Status, request)

    def prefer(self, request: PreferRequest) -> Status:
        return self._call("POST", "prefer", Status, request)

    def reload(self) -> Status:
        return self._call("POST", "reload", Status)

    def new_link(self) -> str:
        """An address that opens the page once, within a minute."""
        return self._call("POST", "link", Link).url

    def stop(self) -> int:
        """Ask it to end. Returns its process id."""
        pid = self._connection()["pid"]
        self._send("POST", "stop", None)
        return int(pid)

    def _call(self, method: str, path: str, kind: type[Message], body: BaseModel | None = None) -> Message:
        answer = self._send(method, path, body)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError:
            raise MinionsError(
                "the executor answers in a form that is not known here",
                hint="It is of another version: start it again with `minions executor stop` and `start`.",
            ) from None

    def _send(self, method: str, path: str, body: BaseModel | None) -> httpx.Response:
        found = self._connection()
        try:
            answer = httpx.request(
                method,
                f"http://127.0.0.1:{found['port']}/api/{path}",
                headers={"Authorization": f"Bearer {found['secret']}"},
                content=body.model_dump_json() if body is not None else None,
                timeout=_CALL_SECONDS,
                trust_env=False,  # no proxy stands between this machine and itself
            )
        except httpx.TimeoutException:
            raise MinionsError("the executor does not answer; its log may say why: minions executor logs") from None
        except httpx.RequestError:
            raise self._nobody() from None
        if answer.is_success:
            return answer
        said = answer.text[:500] or f"it answers {answer.status_code}"
        if answer.status_code in (401, 403):
            raise AccessDenied(f"the executor refuses: {said}", hint="Run this as the user who started it.")
        if answer.status_code == 422:
            raise ValidationFailed([FieldError(path.partition("?")[0], "invalid", said)])
        raise MinionsError(said)

    def _connection(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._state / CONTROL_FILE).read_text())
            return {"port": int(found["port"]), "secret": str(found["secret"]), "pid": int(found["pid"])}
        except PermissionError:
            raise AccessDenied(
                f"{self._state / 'control.json'} cannot be read", hint="Run this as the user who started the executor."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise self._nobody() from None

    def _nobody(self) -> NotFound:
        hint = "Start one with `minions executor`, or name another directory with --state."
        if self._others:
            hint = f"Those of `minions up` are reached with {' or '.join(f'--state {each}' for each in self._others)}."
        return NotFound(f"no executor runs here with the state directory {self._state}", hint=hint)
