"""The same task as a command, as Python, and as a request with curl; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minions.domain.names import public_id
from minions.domain.specification import CompleteParameters, EmbedParameters, RowParameters

_OWN_FLAGS = {"column", "prompt", "system", "id", "keep"}


@dataclass(frozen=True, slots=True)
class TaskText:
    """What a task is made of, as its texts show it. inputs: upload ids, URIs, or names of files."""

    team: str
    project: str
    task_name: str
    model: str
    parameters: RowParameters
    inputs: Sequence[str]
    input_format: str | None = None
    output_format: str = "parquet"
    priority: int = 100


@dataclass(frozen=True, slots=True)
class SameTask:
    """Texts to copy."""

    command: str
    python: str
    curl: str


def same_task(task: TaskText, server: str) -> SameTask:
    """How else this task can be made. server: the address that the visitor uses."""
    changed = _changed(task.parameters)
    return SameTask(_command(task, changed), _python(task, changed), _curl(task, changed, server))


def own_input(uri: str) -> str:
    """An input of the deployment's own store as one would name it: by its upload, else by its file's name."""
    if not uri.startswith("objects:"):
        return uri
    pieces = uri.removeprefix("objects:").split("/")
    return pieces[-1] if pieces[0] == "uploads" else uri


def upload_id(uri: str) -> str:
    """The id of the upload behind a stored input, as a request names it."""
    pieces = uri.removeprefix("objects:").split("/")
    return pieces[1] if uri.startswith("objects:uploads/") and len(pieces) > 2 else uri


def _changed(parameters: RowParameters) -> dict[str, Any]:
    """The parameters that are not what they would be anyway."""
    standard = (EmbedParameters if parameters.kind == "embed" else CompleteParameters).model_fields
    values = parameters.model_dump(mode="json")
    return {
        name: value for name, value in values.items() if name != "kind" and value != _standard(standard[name].default)
    }


def _standard(value: Any) -> Any:
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value


def _command(task: TaskText, changed: Mapping[str, Any]) -> str:
    words = [f"minions submit {task.parameters.kind}", *(shlex.quote(own_input(each)) for each in task.inputs)]
    flags = [f"--model {shlex.quote(task.model)}"]
    for name in ("column", "prompt", "system", "id"):
        if name in changed:
            flags.append(f"--{name} {shlex.quote(_at(str(changed[name])))}")
    flags += [f"--keep {shlex.quote(column)}" for column in changed.get("keep", ())]
    for name, value in changed.items():
        if name not in _OWN_FLAGS:
            text = _at(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            flags.append(f"--param {shlex.quote(f'{name}={text}')}")
    flags += [f"--team {shlex.quote(task.team)}"] * (task.team != "default") + [
        f"--project {shlex.quote(task.project)}"
    ] * (task.project != "default")
    if task.task_name:
        flags.append(f"--name {shlex.quote(task.task_name)}")
    if task.input_format:
        flags.append(f"--format {task.input_format}")
    if task.output_format != "parquet":
        flags.append(f"--output-format {task.output_format}")
    if task.priority != 100:
        flags.append(f"--priority {task.priority}")
    return " \\\n  ".join([" ".join(words), *flags])


def _at(text: str) -> str:
    """On the command line a leading @ names a file; two of them are a plain one."""
    return f"@{text}" if text.startswith("@") else text


def _python(task: TaskText, changed: Mapping[str, Any]) -> str:
    inputs = [own_input(each) for each in task.inputs]
    several = [repr(each) if "://" in each else f"Path({each!r})" for each in inputs]  # a text in a list is a row
    paths = (
        "from pathlib import Path\n\n" if len(several) > 1 and any(each.startswith("Path(") for each in several) else ""
    )
    given = [repr(inputs[0]) if len(inputs) == 1 else f"[{', '.join(several)}]", f"model={task.model!r}"]
    given += [f"{name}={value!r}" for name, value in changed.items()]
    given += [f"team={task.team!r}"] * (task.team != "default")
    given += [f"project={task.project!r}"] * (task.project != "default")
    if task.task_name:
        given.append(f"name={task.task_name!r}")
    if task.input_format:
        given.append(f"input_format={task.input_format!r}")
    if task.output_format != "parquet":
        given.append(f"output_format={task.output_format!r}")
    if task.priority != 100:
        given.append(f"priority={task.priority}")
    lines = ",\n    ".join(given)
    return (
        f"{paths}import minions\n\nclient = minions.Client()\n"
        f"task = client.{task.parameters.kind}(\n    {lines},\n)\ntask.wait()\n"
        f'task.download("{task.task_name or task.parameters.kind}.parquet")'
    )


def _curl(task: TaskText, changed: Mapping[str, Any], server: str) -> str:
    body: dict[str, Any] = {"team": task.team, "project": task.project}
    if task.task_name:
        body["task_name"] = task.task_name
    body |= {
        "model": task.model,
        "parameters": {"kind": task.parameters.kind, **changed},
        "inputs": [upload_id(each) for each in task.inputs],
    }
    if task.input_format:
        body["input_format"] = task.input_format
    if task.output_format != "parquet":
        body["output_format"] = task.output_format
    if task.priority != 100:
        body["priority"] = task.priority
    text = json.dumps(body, indent=2, ensure_ascii=False)
    return (
        f"curl {shlex.quote(server + '/api/v1/tasks')} \\\n"
        '  --header "Authorization: Bearer $MINIONS_TOKEN" \\\n'
        '  --header "Content-Type: application/json" \\\n'
        f"  --data {shlex.quote(text)}"
    )


EXAMPLE_UPLOAD = public_id("upl", 42)
"""Stands for an upload that does not exist yet."""
