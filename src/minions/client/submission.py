"""A task to hand in, checked as far as this side can: everything that is wrong is said at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError, ValidationFailed
from minions.domain.models import engine_for, parse_model
from minions.domain.names import NAME, NAME_RULE
from minions.domain.specification import CompleteParameters, EmbedParameters, RowParameters
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
        body = self._body() | {"parameters": parameters or EmbedParameters.model_validate({})}
        try:
            request = SubmitRequest.model_validate(body)
        except ValidationError as error:
            raise ValidationFailed([*wrong, *field_errors(error, ())]) from None
        if wrong:
            raise ValidationFailed(wrong)
        return request

    def _validated(
        self, given: Mapping[str, Any]
    ) -> tuple[EmbedParameters | CompleteParameters | None, list[FieldError]]:
        try:
            return _PARAMETERS.validate_python({**given, "kind": self.kind}), []
        except ValidationError as error:
            wrong = field_errors(error, ("parameters",))
        # Rules over several fields are only looked at once each field is right: look again without the wrong ones.
        fields = {entry.field.split(".")[1] for entry in wrong if "." in entry.field}
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


def field_errors(error: ValidationError, prefix: tuple[str, ...]) -> list[FieldError]:
    """What pydantic found, by field; the discriminator of a union is no part of the field's name."""
    found: list[FieldError] = []
    for entry in error.errors(include_url=False, include_context=False, include_input=False):
        place = [str(part) for part in entry["loc"] if part not in PARAMETER_MODELS]
        message = str(entry["msg"]).removeprefix("Value error, ")
        if not place and prefix == ("parameters",):
            place, message = _named_first(message)
        found.append(FieldError(".".join([*prefix, *place]), str(entry["type"]), message))
    return found


def _named_first(message: str) -> tuple[list[str], str]:
    """A rule over several parameters names the one that breaks it in its first word."""
    head, colon, rest = message.partition(": ")
    word = message.split(" ")[0].rstrip(":")
    names = {name for model in PARAMETER_MODELS.values() for name in model.model_fields}
    if word not in names:
        return [], message
    return [word], rest if colon and head == word else message
