"""A task to hand in, checked as far as this side can: everything that is wrong is said at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError, ValidationFailed
from minions.domain.models import engine_for, parse_model
from minions.domain.names import NAME, NAME_RULE
from minions.domain.specification import CompleteParameters, EmbedParameters, RowParameters, demand_errors
from minions.wire.field_errors import field_errors
from minions.wire.tasks import SubmitRequest

PARAMETER_MODELS: dict[ModelKind, type[EmbedParameters] | type[CompleteParameters]] = {
    "embed": EmbedParameters,
    "complete": CompleteParameters,
}
_PARAMETERS: TypeAdapter[EmbedParameters | CompleteParameters] = TypeAdapter(RowParameters)
_PLACEHOLDER = "upl_00000000"  # stands for the inputs until they are uploaded


@dataclass(frozen=True, slots=True)
class Draft:
    """A task without its inputs. parameters: as the parameter model wants them, None values left away."""

    kind: ModelKind
    model: str
    parameters: Mapping[str, Any]
    team: str
    project: str
    task_name: str | None = None
    input_format: str | None = None
    output_format: str = "parquet"
    priority: int | None = None
    memory_mb: int | None = None
    subtask_bytes: int | None = None

    def check(self) -> SubmitRequest:
        """The request, with a placeholder for its inputs. Raises ValidationFailed with all that is wrong."""
        wrong = [*self._name_errors(), *self._model_errors()]
        given = {key: value for key, value in self.parameters.items() if value is not None}
        known = known_parameters(self.kind)
        wrong += [
            FieldError(
                f"parameters.{key}",
                "unknown_parameter",
                f"there is no parameter {key!r} for {self.kind}; known are {', '.join(known)}",
            )
            for key in given
            if key not in known
        ]
        parameters, wrong_parameters = self._validated({key: value for key, value in given.items() if key in known})
        wrong += wrong_parameters
        wrong += demand_errors(parameters) if parameters is not None else []
        body = self._body() | {"parameters": parameters or EmbedParameters.model_validate({})}
        try:
            request = SubmitRequest.model_validate(body)
        except ValidationError as error:
            raise ValidationFailed([*wrong, *field_errors(error.errors(include_url=False))]) from None
        if wrong:
            raise ValidationFailed(wrong)
        return request

    def _validated(
        self, given: Mapping[str, Any]
    ) -> tuple[EmbedParameters | CompleteParameters | None, list[FieldError]]:
        try:
            return _PARAMETERS.validate_python({**given, "kind": self.kind}), []
        except ValidationError as error:
            wrong = field_errors(error.errors(include_url=False), ("parameters",))
        # Rules over several fields are only looked at once each field is right: look again without the wrong ones.
        fields = {re.split(r"[.\[]", entry.field)[1] for entry in wrong if "." in entry.field}
        rest = {key: value for key, value in given.items() if key not in fields}
        return None, wrong + (self._validated(rest)[1] if len(rest) < len(given) else [])

    def _body(self) -> dict[str, Any]:
        values = {
            "team": self.team,
            "project": self.project,
            "task_name": self.task_name,
            "model": self.model,
            "inputs": [_PLACEHOLDER],
            "input_format": self.input_format,
            "output_format": self.output_format,
            "priority": self.priority,
            "memory_mb": self.memory_mb,
            "subtask_bytes": self.subtask_bytes,
        }
        return {key: value for key, value in values.items() if value is not None}

    def _name_errors(self) -> list[FieldError]:
        given = (("team", self.team), ("project", self.project), ("task_name", self.task_name))
        return [
            FieldError(field, "bad_name", f"{value!r} is not a name: {NAME_RULE}")
            for field, value in given
            if value is not None and not NAME.fullmatch(value)
        ]

    def _model_errors(self) -> list[FieldError]:
        try:
            engine_for(self.kind, parse_model(self.model))
        except ValueError as error:
            return [FieldError("model", "bad_model", str(error))]
        return []


def known_parameters(kind: ModelKind) -> list[str]:
    """The names that the parameter model of this kind has."""
    return sorted(name for name in PARAMETER_MODELS[kind].model_fields if name != "kind")
