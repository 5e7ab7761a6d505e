"""The form of a new task: from its fields to a request, and from errors back to the fields; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pydantic import ValidationError

from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError
from minions.domain.models import engine_for, parse_model
from minions.domain.names import TaskName, public_id
from minions.domain.phrases import quoted
from minions.domain.specification import CommandParameters, CompleteParameters, RowParameters
from minions.server.api.problems import field_errors
from minions.server.web.views.results import Excerpt, excerpt
from minions.wire.tasks import SubmitRequest

if TYPE_CHECKING:
    from minions.domain.rows import Row
    from minions.server.actions.preview_task import InputPreview

SourceKind = Literal["file", "lines", "uri"]
MOST_PASTED: Final = 1_000_000
EXAMPLE_UPLOAD: Final = public_id("upl", 42)
"""Stands for an upload that does not exist yet."""
_EMBED: Final = ("normalize", "dimensions", "prompt_name", "dtype")
_COMPLETE: Final = ("system", "max_tokens", "context_tokens", "temperature", "top_p", "top_k", "seed", "think", "raw")
_SAID_OF_ALL: Final = (("prompt:", "prompt"), ("max_tokens (", "max_tokens"))
_SAID: Final = {"int_parsing": "write a whole number", "float_parsing": "write a number"}
_FORMAT_FLAG: Final = re.compile(r"--format(?: \w+)? \(input_format in Python and REST\)")
MORE_NAME: Final = "Priority and formats"
_SOURCES: Final = ("file", "lines", "uri")
_HARMLESS: Final = {"model": "hf:none/none", "max_tokens": "1"}
_SHOWN_ROWS: Final = 3
_SHOWN_CHARACTERS: Final = 500
_CHARACTERS_A_TOKEN: Final = 4
_LONG_TEXT: Final = 2000  # about 512 tokens, the window of many embedding models

DEFAULTS: Final[dict[str, str]] = {
    "source": "file",
    "kind": "embed",
    "dtype": "float32",
    "embed_overflow": "truncate",
    "complete_overflow": "fail",
    "max_tokens": "256",
    "context_tokens": "4096",
    "temperature": "0",
    "seed": "0",
    "team": "default",
    "project": "default",
    "priority": "100",
    "output_format": "parquet",
}

LABELS: Final[dict[str, str]] = {
    "file": "File",
    "lines": "Lines",
    "uri": "URI",
    "model": "Model",
    "column": "Text column",
    "prompt": "Prompt",
    "system": "System message",
    "max_tokens": "Tokens a reply",
    "temperature": "Temperature",
    "context_tokens": "Window in tokens",
    "id": "Id column",
    "keep": "Columns to carry along",
    "normalize": "Scale to length 1",
    "dimensions": "Keep the first numbers",
    "prompt_name": "Prompt of the model",
    "embed_prompt": "Text before every row",
    "dtype": "Precision",
    "embed_overflow": "Longer than the window",
    "top_p": "Top p",
    "top_k": "Top k",
    "seed": "Seed",
    "think": "Reasoning",
    "raw": "Chat template",
    "complete_overflow": "Longer than the window",
    "stop": "Stop at",
    "output_schema": "JSON schema of a reply",
    "max_failed_share": "Stop when more fails than",
    "team": "Team",
    "project": "Project",
    "task_name": "Task",
    "priority": "Priority",
    "input_format": "Format of the input",
    "output_format": "Format of the parts",
}
"""What the form calls its fields, beside them and in the list of what is wrong."""


@dataclass(frozen=True, slots=True)
class NewTaskForm:
    """What was typed. Every field is text, so that what is wrong can be shown again as it was."""

    values: Mapping[str, str]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> NewTaskForm:
        """A field that was left away is as it is at first; one that was emptied is empty."""
        return cls({**DEFAULTS, **given})

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    @property
    def kind(self) -> ModelKind:
        return "complete" if self["kind"] == "complete" else "embed"

    @property
    def source(self) -> SourceKind:
        source = self["source"]
        return cast("SourceKind", source) if source in ("lines", "uri") else "file"

    def inputs(self) -> list[str]:
        """The inputs that are named: an upload, or URIs. Pasted lines are none until they are stored."""
        match self.source:
            case "file":
                return [self["upload"]] if self["upload"] else []
            case "uri":
                return self["uri"].split()
            case "lines":
                return []

    def taking(self, preview: InputPreview | None) -> NewTaskForm:
        """With the columns that the preview suggests, where none was named."""
        if preview is None:
            return self
        suggested: dict[str, str] = {}
        if not self["column"] and preview.text_column:
            suggested["column"] = preview.text_column
        if not self["prompt"] and preview.text_column:
            suggested["prompt"] = "{" + preview.text_column + "}"
        if "id" not in self.values and preview.id_column:
            suggested["id"] = preview.id_column
        return NewTaskForm({**self.values, **suggested})


def pasted_rows(text: str) -> bytes:
    """Pasted text as JSON Lines: objects, one a line, stay as they are; any other line is a row's text."""
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        return "".join(line + "\n" for line in lines).encode("utf-8", "replace")
    rows = (json.dumps({"text": line.strip()}, ensure_ascii=False) for line in lines)
    return "".join(row + "\n" for row in rows).encode("utf-8", "replace")


def request_of(form: NewTaskForm, inputs: Sequence[str]) -> tuple[SubmitRequest | None, list[FieldError]]:
    """The request that the form stands for, or what is wrong with it, by the form's fields."""
    errors: list[FieldError] = []
    body: dict[str, Any] = {
        "team": form["team"] or "default",
        "project": form["project"] or "default",
        "task_name": form["task_name"] or None,
        "model": form["model"].strip(),
        "parameters": _parameters(form, errors),
        "inputs": list(inputs),
        "input_format": (form["input_format"] or None) if form.source != "lines" else None,  # they are JSON Lines
        "output_format": form["output_format"] or "parquet",
        "priority": form["priority"] or 100,
    }
    if not body["model"]:
        errors.append(FieldError("model", "missing", "name a model"))
        body["model"] = "hf:none/none"
    if wrong := uri_errors(form) if inputs else [_no_input(form)]:
        errors += wrong
        body["inputs"] = [EXAMPLE_UPLOAD]
    try:
        request = SubmitRequest.model_validate(body)
    except ValidationError as error:
        errors += [_placed(each, form) for each in field_errors(cast("list[Any]", error.errors()))]
        return None, errors + errors_of_names(form)
    return (None, errors + errors_of_names(form)) if errors else (request, [])


def repaired(form: NewTaskForm, inputs: Sequence[str]) -> tuple[SubmitRequest | None, list[FieldError]]:
    """The request with harmless values where the form is wrong, and all that is: some of it shows only when the rest
    is right. None where no such request can be made."""
    request, errors = request_of(form, inputs)
    while request is None:
        values = {name: _HARMLESS.get(name, DEFAULTS.get(name, "")) for name in placed(errors, form)}
        form = NewTaskForm({**form.values, **values, **{name: form[name] for name in _SOURCES}})
        request, more = request_of(form, inputs or [EXAMPLE_UPLOAD])
        if not (new := others(more, errors, form)):
            break
        errors = errors + new
    return request, errors


def others(errors: Sequence[FieldError], told: Sequence[FieldError], form: NewTaskForm) -> list[FieldError]:
    """The errors at fields of which none is told yet."""
    known = placed(told, form)
    return [each for each in errors if _placed(each, form).field not in known]


def errors_of_names(form: NewTaskForm) -> list[FieldError]:
    """What submitting would say of names and the model, so that it is told together with what is wrong already."""
    errors = TaskName(form["team"] or "default", form["project"] or "default", form["task_name"] or "task").errors()
    if model := form["model"].strip():
        try:
            engine_for(form.kind, parse_model(model))
        except ValueError as error:
            errors.append(FieldError("model", "bad_model", str(error)))
    return errors


def row_parameters(request: SubmitRequest) -> RowParameters:
    """The parameters of a request that this form made: it makes none for commands."""
    assert not isinstance(request.parameters, CommandParameters)
    return request.parameters


def paste_error(form: NewTaskForm) -> FieldError | None:
    """Why so much cannot be pasted; None where it can."""
    if form.source != "lines" or len(form["lines"]) <= MOST_PASTED:
        return None
    said = f"{len(form['lines']):,} characters were pasted, {MOST_PASTED:,} at most: save them as a file and choose it"
    return FieldError("lines", "too_long", said)


def _no_input(form: NewTaskForm) -> FieldError:
    match form.source:
        case "file":
            return FieldError("file", "missing", "choose a file")
        case "uri":
            return FieldError("uri", "missing", "write s3://bucket/key")
        case "lines":
            return FieldError("lines", "missing", "paste one row a line")


def _parameters(form: NewTaskForm, errors: list[FieldError]) -> dict[str, Any]:
    kind = form.kind
    found: dict[str, Any] = {"kind": kind, "keep": [name.strip() for name in form["keep"].split(",") if name.strip()]}
    for name in ("id", "max_failed_share", *(_EMBED if kind == "embed" else _COMPLETE)):
        if form[name]:
            found[name] = form[name]
    found["on_overflow"] = form[f"{kind}_overflow"]
    if kind == "embed":
        found["column"] = form["column"] or "text"
        if form["embed_prompt"]:
            found["prompt"] = form["embed_prompt"]
        return found
    found["prompt"] = form["prompt"] or "{text}"
    found["raw"] = form["raw"] == "yes"
    if form["think"]:
        found["think"] = {"yes": True, "no": False}.get(form["think"], form["think"])
    found["stop"] = [line for line in form["stop"].split("\n") if line]
    if form["output_schema"].strip():
        try:
            found["output_schema"] = json.loads(form["output_schema"])
        except ValueError as error:
            errors.append(FieldError("output_schema", "not_json", f"this is no JSON: {error}"))
    return found


def placed(errors: Sequence[FieldError], form: NewTaskForm) -> dict[str, str]:
    """Errors of a request by the form's field that each is shown beside, in the form's order; what belongs to none is
    under '', at the end."""
    found: dict[str, list[str]] = {}
    for error in errors:
        at = _placed(error, form)
        found.setdefault(at.field, []).append(at.message)
    order = [*LABELS, ""]
    return {name: "; ".join(dict.fromkeys(found[name])) for name in sorted(found, key=order.index)}


def _placed(error: FieldError, form: NewTaskForm) -> FieldError:
    """The same error at the field of the form that its field of the request is typed into."""
    name = error.field.partition("[")[0].removeprefix("parameters.").partition(".")[0]
    if name == "parameters":
        # Of several parameters together: what does not begin with their name is about the template itself.
        whole = "prompt" if form.kind == "complete" else "prompt_name"
        name = next((field for words, field in _SAID_OF_ALL if error.message.startswith(words)), whole)
    if name == "inputs":
        name = form.source
    if name == "prompt" and form.kind == "embed":
        name = "embed_prompt"
    if name == "on_overflow":
        name = f"{form.kind}_overflow"
    message = in_words_of_the_form(_SAID.get(error.code, error.message)).removeprefix("prompt: ")
    return FieldError(name if name in LABELS else "", error.code, message)


def in_words_of_the_form(message: str) -> str:
    """A message that names the command line's flag for what is a field here."""
    return _FORMAT_FLAG.sub(rf"“{LABELS['input_format']}” under {MORE_NAME}", message)


def uri_errors(form: NewTaskForm) -> list[FieldError]:
    """URIs that are none, told as this field takes them: an upload has a field of its own."""
    wrong = [each for each in form.inputs() if form.source == "uri" and not each.startswith(("s3://", "file://"))]
    return [
        FieldError("uri", "bad_uri", f"{quoted(each)} is no URI of an object: write s3://bucket/key") for each in wrong
    ]


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What the model would be given of a row. problem: why this row would fail."""

    text: Excerpt | None
    problem: str = ""


def sample_rows(rows: Sequence[Row], parameters: RowParameters) -> list[SampleRow]:
    """What the first three rows become."""
    return [_sample(row, parameters) for row in rows[:_SHOWN_ROWS]]


def _sample(row: Row, parameters: RowParameters) -> SampleRow:
    text, problem = given_text(row, parameters)
    return SampleRow(None if text is None else excerpt(text, _SHOWN_CHARACTERS), problem)


def given_text(row: Row, parameters: RowParameters) -> tuple[str | None, str]:
    """(text that the model is given, "") or (None, why the row would fail)."""
    if row.fields is None:
        return None, row.message
    missing = [name for name in parameters.columns() if row.fields.get(name) is None]
    if missing:
        return None, f"no value in {missing[0]!r}"
    if isinstance(parameters, CompleteParameters):
        return parameters.render(row.fields), ""
    value = row.fields[parameters.column]
    if not isinstance(value, str):
        return None, f"{parameters.column!r} holds no text here"
    return (value, "") if value.strip() else (None, "the text is empty")


@dataclass(frozen=True, slots=True)
class RowCheck:
    """What the first rows would come to. too_long: by a rough count, against the limit in tokens."""

    read: int
    failing: int
    too_long: int
    limit_tokens: int
    longest_characters: int


def check_rows(rows: Sequence[Row], parameters: RowParameters) -> RowCheck:
    """Count the rows that would fail, and those that are longer than the model's window.

    The server has no tokenizer: four characters count as one token, and for embeddings, whose window only the model
    knows, 2,000 characters as much.
    """
    if isinstance(parameters, CompleteParameters):
        limit = (parameters.context_tokens - parameters.max_tokens) * _CHARACTERS_A_TOKEN
    else:
        limit = _LONG_TEXT
    texts = [given_text(row, parameters)[0] for row in rows]
    lengths = [len(text) for text in texts if text is not None]
    return RowCheck(
        read=len(rows),
        failing=sum(text is None for text in texts),
        too_long=sum(length > limit for length in lengths),
        limit_tokens=limit // _CHARACTERS_A_TOKEN,
        longest_characters=max(lengths, default=0),
    )
