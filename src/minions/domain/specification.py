"""What a task asks of an engine: parameters, checked as far as they can be without the input."""

from __future__ import annotations

import string
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from minions.domain.errors import FieldError
from minions.domain.json_schema import schema_problem
from minions.domain.output_paths import path_problem


def _with_kind(schema: dict[str, Any]) -> None:
    """In a message it must be said which kind it is, although what is made here knows it by its class."""
    schema["required"] = sorted({*schema.get("required", ()), "kind"})


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_with_kind)

    id: str | None = Field(None, description="Column whose value names a row; carried into the output.")
    keep: tuple[str, ...] = Field((), description="Columns to carry into the output.")
    max_failed_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Stop the task once more than this share of its finished rows has failed (0 to 1).",
    )


class EmbedParameters(_Parameters):
    """How texts become vectors. None takes what the model itself says."""

    kind: Literal["embed"] = "embed"
    column: str = Field("text", description="Column that holds the text.")
    normalize: bool | None = Field(None, description="Scale every vector to length 1.")
    dimensions: int | None = Field(
        None, ge=1, description="Keep the first N numbers of each vector (Matryoshka models)."
    )
    prompt_name: str | None = Field(None, description="One of the model's own prompts, such as `query`.")
    prompt: str | None = Field(None, description="Text put before every row's text.")
    dtype: Literal["float32", "float16", "bfloat16"] = Field("float32", description="Precision of the weights.")
    on_overflow: Literal["truncate", "fail"] = Field(
        "truncate", description="A text longer than the model's window: cut it and say so, or fail the row."
    )

    @model_validator(mode="after")
    def _one_prompt(self) -> EmbedParameters:
        if self.prompt is not None and self.prompt_name is not None:
            raise ValueError("give prompt or prompt_name, not both")
        return self

    def columns(self) -> list[str]:
        """Input columns that the task works on."""
        return [self.column]

    def for_engine(self) -> EmbedParameters:
        """Without what an engine does not look at, so that tasks that differ only there share a loaded engine."""
        return self.model_copy(update={"column": "text", "id": None, "keep": (), "max_failed_share": None})


class CompleteParameters(_Parameters):
    """How prompts become replies."""

    kind: Literal["complete"] = "complete"
    prompt: str = Field(
        "{text}", min_length=1, description="Template; {column} stands for a row's value, {{ and }} for braces."
    )
    system: str | None = Field(None, description="System message.")
    raw: bool = Field(False, description="Continue the prompt as it is, without the model's chat template.")
    max_tokens: int = Field(256, ge=1, le=1_000_000, description="Most tokens of a reply.")
    context_tokens: int = Field(
        4096, ge=64, le=10_000_000, description="The model's window: prompt and reply together."
    )
    temperature: float = Field(0.0, ge=0, le=10)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, lt=2**31)
    stop: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = Field(None, description="JSON schema that every reply must follow.")
    think: bool | Literal["low", "medium", "high"] | None = Field(
        None, description="Reasoning, kept apart from the reply."
    )
    on_overflow: Literal["truncate", "fail"] = Field(
        "fail", description="A prompt longer than the window: fail the row, or let the engine cut it and say so."
    )

    @model_validator(mode="after")
    def _template(self) -> CompleteParameters:
        names = self.columns()
        if not names:
            raise ValueError("prompt: the template names no {column}, so every row would get the same prompt")
        if self.max_tokens >= self.context_tokens:
            raise ValueError(
                f"max_tokens ({self.max_tokens}) must be smaller than context_tokens ({self.context_tokens})"
            )
        return self

    def columns(self) -> list[str]:
        """Input columns that the prompt names, in order. Raises ValueError for a malformed template."""
        names: list[str] = []
        try:
            pieces = list(string.Formatter().parse(self.prompt))
        except ValueError:
            raise ValueError(
                "prompt: a brace stands alone: write {column} for a row's value, and {{ or }} for the brace itself"
            ) from None
        for _, name, spec, conversion in pieces:
            if name is None:
                continue
            if not name or spec or conversion:
                raise ValueError("prompt: write {column} with a plain column name; {{ and }} stand for braces")
            if name not in names:
                names.append(name)
        return names

    def for_engine(self) -> CompleteParameters:
        """Without what an engine does not look at, so that tasks that differ only there share a loaded engine."""
        return self.model_copy(update={"prompt": "{text}", "id": None, "keep": (), "max_failed_share": None})

    def render(self, fields: dict[str, Any]) -> str:
        """The prompt of one row. Nothing is looked up by attribute, so a column name may hold anything but braces."""
        pieces: list[str] = []
        for literal, name, _, _ in string.Formatter().parse(self.prompt):
            pieces.append(literal)
            if name is not None:
                pieces.append(str(fields[name]))
        return "".join(pieces)


class CommandInput(BaseModel):
    """A file that jobs read. object: the upload that holds it; None: it is in the commit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(description="Where jobs find it, from the project's directory.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=2**53 - 1)
    object: str | None = Field(None, pattern=r"^upl_[0-9a-z]{1,13}$")

    @model_validator(mode="after")
    def _plain_path(self) -> CommandInput:
        if problem := path_problem(self.path):
            raise ValueError(f"path {self.path!r} {problem}")
        return self


class CommandParameters(BaseModel):
    """How commands are run. The task's input is a file of jobs, one line each; each job has one output."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_with_kind)

    # What tasks with rows have and these have not, so that both can be asked.
    id: ClassVar[None] = None
    keep: ClassVar[tuple[str, ...]] = ()
    max_failed_share: ClassVar[None] = None

    kind: Literal["command"] = "command"
    commit: str = Field(pattern=r"^[0-9a-f]{40}$", description="The commit in whose worktree jobs run.")
    patch_sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="Of what the tree had beyond the commit."
    )
    project_key: str = Field(pattern=r"^[0-9a-f]{16}$", description="The same for every clone of the project.")
    retries: int = Field(0, ge=0, le=100, description="How often a job that failed is run again.")
    timeout_seconds: float | None = Field(None, gt=0, le=366 * 86400, description="A job that takes longer is stopped.")
    idempotent: bool = Field(
        False, description="A job may be run elsewhere while its silent host may still be running it."
    )
    second_start: bool = Field(
        False,
        description="When nothing waits, what has run longest is started a second time; the first to end counts.",
    )
    inputs: tuple[CommandInput, ...] = Field((), max_length=1000, description="Files that all jobs read.")
    command: tuple[str, ...] = Field((), max_length=1000, description="The template of the jobs, for people.")
    setup_sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="Of what makes a worktree ready: lockfile and setup command."
    )

    @model_validator(mode="after")
    def _distinct_inputs(self) -> CommandParameters:
        paths = [each.path for each in self.inputs]
        if len(set(paths)) < len(paths):
            raise ValueError("inputs: two of them have the same path")
        return self

    @model_validator(mode="after")
    def _only_harmless_second_starts(self) -> CommandParameters:
        if self.second_start and not self.idempotent:
            raise ValueError("second_start needs idempotent = true: the job runs twice at the same time")
        return self

    def columns(self) -> list[str]:
        """Commands read no columns."""
        return []


RowParameters = Annotated[EmbedParameters | CompleteParameters, Field(discriminator="kind")]
"""What tasks ask whose subtasks are rows."""

Parameters = Annotated[EmbedParameters | CompleteParameters | CommandParameters, Field(discriminator="kind")]

# More than any model has. Not in the models: tasks that are stored already are read by them.
_MOST = {"dimensions": 65_536, "top_k": 1_000_000}


def demand_errors(parameters: Parameters) -> list[FieldError]:
    """What no engine can do of what a new task asks for; pure."""
    errors: list[FieldError] = []
    for name, most in _MOST.items():
        value: int | None = getattr(parameters, name, None)
        if value is not None and value > most:
            errors.append(FieldError(f"parameters.{name}", "too_large", f"must be at most {most:,}"))
    schema = parameters.output_schema if isinstance(parameters, CompleteParameters) else None
    if schema is not None and (problem := schema_problem(schema)):
        errors.append(FieldError("parameters.output_schema", "bad_schema", f"is no JSON schema: {problem}"))
    return errors
