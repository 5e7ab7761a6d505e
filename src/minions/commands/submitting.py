"""Handing in on the command line: parameters from text, errors by flag, uploads with a bar, and what follows."""

from __future__ import annotations

import glob
import json as json_module
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from minions.commands.output import bytes_text, print_json, to_stderr, to_stdout
from minions.commands.waiting import wait_for
from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError, ValidationFailed

if TYPE_CHECKING:
    from minions.client.client import Client, UploadProgress
    from minions.client.inputs import Input
    from minions.client.submission import Draft
    from minions.client.task import Task

_FLAGS = {
    "task_name": "--name",
    "input_format": "--format",
    "parameters.column": "--column",
    "parameters.id": "--id",
    "parameters.keep": "--keep",
    "parameters.prompt": "--prompt",
    "parameters.system": "--system",
}


def flag_of(field: str, inputs: Sequence[str], kind: ModelKind) -> str:
    """What a person typed for a field of the request."""
    field = field.replace(f"parameters.{kind}.", "parameters.").replace("[", ".").replace("]", "")
    for name, flag in _FLAGS.items():
        if field == "parameters.prompt" and kind == "embed":
            continue
        if field == name or field.startswith(name + "."):
            return flag
    head, _, rest = field.partition(".")
    if head == "parameters":
        return f"--param {rest.split('.')[0]}" if rest else "--param"
    if head == "inputs":
        return inputs[int(rest)] if rest.isdigit() and int(rest) < len(inputs) else "INPUT"
    return f"--{head.replace('_', '-')}" if head else ""


def text_of(flag: str, value: str) -> str:
    """The value, or with @FILE what the file holds; @@ is a plain @."""
    if value.startswith("@@"):
        return value[1:]
    if not value.startswith("@"):
        return value
    path = Path(value[1:]).expanduser()
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ValidationFailed([FieldError(flag, "unreadable", f"{path} is not UTF-8 text")]) from None
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ValidationFailed([FieldError(flag, "unreadable", f"{path}: {reason}")]) from None


def parameter_values(given: Iterable[str], kind: ModelKind) -> tuple[dict[str, Any], list[FieldError]]:
    """`k=v` pairs as the parameter model wants them: text stays text where it may, everything else is read as JSON.

    Also returns what is wrong: every pair that is none, and every unknown name.
    """
    from minions.client.submission import PARAMETER_MODELS, known_parameters

    fields = PARAMETER_MODELS[kind].model_fields
    values: dict[str, Any] = {}
    wrong: list[FieldError] = []
    for pair in given:
        name, equals, text = pair.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in fields or name == "kind":
            known = ", ".join(known_parameters(kind))
            what = f"{pair!r} is no name=value" if not equals else f"there is no parameter {name!r}"
            wrong.append(FieldError("--param", "unknown_parameter", f"{what}; known are {known}"))
            continue
        try:
            text = text_of(f"--param {name}", text)
        except ValidationFailed as error:
            wrong += error.errors
            continue
        annotation = str(fields[name].annotation)
        if annotation.startswith("tuple"):
            values[name] = (*values.get(name, ()), text)
        else:
            values[name] = text if annotation in ("str | None", "<class 'str'>") else _value(text)
    return values, wrong


def _value(text: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError:
        return text


def names_of(lists: Iterable[str]) -> tuple[str, ...]:
    """Column names from repeated or comma-separated options."""
    return tuple(name.strip() for entry in lists for name in entry.split(",") if name.strip())


def with_globs(names: Sequence[str]) -> list[str]:
    """The names, with the files that match in place of each pattern that the shell left as it was."""
    found: list[str] = []
    for name in names:
        is_pattern = any(mark in name for mark in "*?[") and "://" not in name and not Path(name).exists()
        matching = sorted(glob.glob(name, recursive=True)) if is_pattern else []
        found += matching or [name]
    return found


@contextmanager
def _standard_input(names: Sequence[str], format: str | None) -> Generator[list[str]]:
    """The inputs, with `-` replaced by a file that holds what stdin said."""
    if "-" not in names:
        yield list(names)
        return
    with tempfile.TemporaryDirectory(prefix="minions-") as folder:
        path = Path(folder) / f"stdin.{format or 'jsonl'}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [str(path) if name == "-" else name for name in names]


@contextmanager
def _upload_bar(quiet: bool) -> Generator[UploadProgress | None]:
    """A bar for uploads on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("uploading {task.description}"), BarColumn(30), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars: dict[str, Any] = {}

        def sent(label: str, done: int, total: int) -> None:
            if label not in bars:
                bars[label] = progress.add_task(Path(label).name, total=total)
            progress.update(bars[label], completed=done)

        yield sent


def hand_in(
    client: Client,
    draft: Draft,
    params: Sequence[str],
    inputs: Sequence[str],
    *,
    idempotency_key: str | None,
    wait: bool,
    timeout: float | None,
    json: bool,
    quiet: bool,
) -> None:
    """Check everything, upload, submit, and wait when asked. Ends the command with its exit code."""
    inputs = with_globs(inputs)
    with ExitStack() as stack:
        names = stack.enter_context(_standard_input(inputs, draft.input_format))
        draft, found = _checked(draft, params, names, inputs)
        progress = stack.enter_context(_upload_bar(quiet))
        try:
            task = client.submit_inputs(draft, found, idempotency_key, progress)
        except ValidationFailed as error:
            raise _refused(_by_flag(error, inputs, draft.kind).errors) from None
    _say_submitted(task, found, json and not wait, quiet)
    if wait:
        raise typer.Exit(wait_for(task, timeout, quiet, json))


def _checked(
    draft: Draft, params: Sequence[str], names: Sequence[str], inputs: Sequence[str]
) -> tuple[Draft, list[Input]]:
    """The draft with its parameters, and the inputs. Raises ValidationFailed with all that is wrong, by flag."""
    from minions.client.inputs import from_names

    wrong: list[FieldError] = []
    found: list[Input] = []
    given = dict(draft.parameters)
    for key in ("prompt", "system"):
        if isinstance(given.get(key), str):
            try:
                given[key] = text_of(f"--{key}", given[key])
            except ValidationFailed as error:
                wrong += error.errors
                del given[key]  # what is checked below must not be the file's name
    values, wrong_values = parameter_values(params, draft.kind)
    wrong += wrong_values
    draft = replace(draft, parameters=given | values)
    try:
        draft.check()
    except ValidationFailed as error:
        wrong += _by_flag(error, inputs, draft.kind).errors
    try:
        found = from_names(names)
    except ValidationFailed as error:
        wrong += _by_flag(error, inputs, draft.kind).errors
    if wrong:
        raise _refused(wrong)
    return draft, found


def _refused(errors: list[FieldError]) -> ValidationFailed:
    return ValidationFailed(errors, hint="Correct what is named, and send it again; nothing was stored.")


def _by_flag(error: ValidationFailed, inputs: Sequence[str], kind: ModelKind) -> ValidationFailed:
    def named(entry: FieldError) -> FieldError:
        flag = flag_of(entry.field, inputs, kind)
        return replace(entry, field="INPUT" if entry.message.startswith(f"{flag}: ") else flag)

    return ValidationFailed([named(entry) for entry in error.errors])


def _say_submitted(task: Task, inputs: Sequence[Input], json: bool, quiet: bool) -> None:
    if json:
        print_json(task.view.model_dump(mode="json"))
        return
    to_stdout(task.id)
    if quiet:
        return
    sent = sum(entry.file.size_bytes for entry in inputs if entry.file is not None)
    what = f" ({bytes_text(sent)} uploaded)" if sent else ""
    to_stderr(("Submitted ", "green"), (task.name, "bold"), f"{what}.")
    to_stderr(f"Follow it with: minions tasks watch {task.id}", style="dim")
