"""The same task as a command, as Python, and as a request with curl; pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from minions.domain.specification import CompleteParameters, EmbedParameters, RowParameters

_OWN_FLAGS = {"column", "system", "id", "keep"}
_PASTED = "pasted.jsonl"
_MOST_PASTED = 4000  # characters that still stand in a command as one can read it


@dataclass(frozen=True, slots=True)
class TaskText:
    """What a task is made of, as its texts show it.

    inputs: what the server can read already, uploads by their ids and URIs. file: instead, one that whoever copies has.
    pasted: instead, the rows themselves, as JSON Lines.
    """

    team: str
    project: str
    task_name: str
    model: str
    parameters: RowParameters
    inputs: Sequence[str] = ()
    file: str = ""
    pasted: str = ""
    input_format: str | None = None
    output_format: str = "parquet"
    priority: int = 100

    @property
    def path(self) -> str:
        """The file as a path that is no option, no home and no upload; empty where there is none."""
        name = _PASTED if self.pasted else self.file
        return f"./{name}" if name.startswith(("-", "~", "upl_")) else name


@dataclass(frozen=True, slots=True)
class SameTask:
    """Texts to copy."""

    command: str
    python: str
    curl: str


def same_task(task: TaskText, server: str) -> SameTask | None:
    """How else this task can be made; None where its rows are too many for a text. server: the visitor's address."""
    if len(task.pasted) > _MOST_PASTED or "\0" in task.pasted:
        return None
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
    given = ["-"] if task.pasted else [shlex.quote(each) for each in (task.path, *task.inputs) if each]
    flags = [f"--model {shlex.quote(task.model)}", *_parameter_flags(task.parameters.kind, changed)]
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
    text = " \\\n  ".join([" ".join([f"minions submit {task.parameters.kind}", *given]), *flags])
    return f"{text} {_here(task.pasted)}" if task.pasted else text


def _parameter_flags(kind: str, changed: Mapping[str, Any]) -> list[str]:
    own = _OWN_FLAGS | ({"prompt"} if kind == "complete" else set[str]())
    flags = [
        f"--{name} {shlex.quote(_at(str(changed[name])))}"
        for name in ("column", "prompt", "system", "id")
        if name in changed and name in own
    ]
    kept: Sequence[str] = changed.get("keep", ())
    if any("," in column or column != column.strip() for column in kept):
        own = own - {"keep"}  # the flag separates names by commas
    else:
        flags += [f"--keep {shlex.quote(column)}" for column in kept]
    for name, value in changed.items():
        if name not in own:
            texts = cast("list[Any]", value) if isinstance(value, list) else [value]
            flags += [f"--param {shlex.quote(f'{name}={_param(each)}')}" for each in texts]
    return flags


def _param(value: Any) -> str:
    return _at(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _at(text: str) -> str:
    """On the command line a leading @ names a file; two of them are a plain one."""
    return f"@{text}" if text.startswith("@") else text


def _here(content: str) -> str:
    """Lines as standard input; a shell leaves what is between quoted marks as it is."""
    mark = "END"
    while mark in content.split("\n"):
        mark += "_"
    return f"<<'{mark}'\n{content}{mark}"


def _python(task: TaskText, changed: Mapping[str, Any]) -> str:
    inputs = [each for each in (task.path, *task.inputs) if each]
    several = [repr(each) if "://" in each else f"Path({each!r})" for each in inputs]  # a text in a list is a row
    paths = len(several) > 1 and any(each.startswith("Path(") for each in several)
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
        ("from pathlib import Path\n\n" if paths or task.pasted else "")
        + f"import minions\n\n{_written(task.pasted)}client = minions.Client()\n"
        + f"task = client.{task.parameters.kind}(\n    {lines},\n)\ntask.wait()\n"
        + f'task.download("{task.task_name or task.parameters.kind}.{task.output_format}")'
    )


def _written(content: str) -> str:
    """Makes the file of pasted lines."""
    if not content:
        return ""
    lines = "\n    ".join(repr(line) for line in content.splitlines(keepends=True))
    return f"Path({_PASTED!r}).write_text(\n    {lines},\n    'utf-8',\n)\n"


def _curl(task: TaskText, changed: Mapping[str, Any], server: str) -> str:
    body: dict[str, Any] = {} if task.path else {"inputs": list(task.inputs)}
    body |= {"team": task.team, "project": task.project}
    if task.task_name:
        body["task_name"] = task.task_name
    body |= {"model": task.model, "parameters": {"kind": task.parameters.kind, **changed}}
    if task.input_format:
        body["input_format"] = task.input_format
    if task.output_format != "parquet":
        body["output_format"] = task.output_format
    if task.priority != 100:
        body["priority"] = task.priority
    text = json.dumps(body, indent=2, ensure_ascii=False)
    if task.path:
        return _curl_of_file(task, text, server)
    return (
        f"curl {shlex.quote(server + '/api/v1/tasks')} \\\n"
        '  --header "Authorization: Bearer $MINIONS_TOKEN" \\\n'
        '  --header "Content-Type: application/json" \\\n'
        f"  --data {shlex.quote(text)}"
    )


def _curl_of_file(task: TaskText, body: str, server: str) -> str:
    """Announce the file, put its bytes to the link that comes back, then name the upload; nothing but curl and sed.

    A link of a deployment whose objects are files has no server in it.
    """
    name = json.dumps(_PASTED if task.pasted else task.file, ensure_ascii=False)
    announced = shlex.quote(f'{{"filename": {name}, "size_bytes": ')
    made = f"cat > {_PASTED} {_here(task.pasted)}\n" if task.pasted else ""
    return (
        f"{made}server={shlex.quote(server)} file={shlex.quote(task.path)}\n"
        'ask() { curl --fail-with-body --silent --show-error --header "Authorization: Bearer $MINIONS_TOKEN"'
        " --header 'Content-Type: application/json' \"$@\"; }\n"
        'of() { printf %s "$made" | sed "s/.*\\"$1\\": *\\"\\([^\\"]*\\)\\".*/\\1/"; }\n'
        f'made=$(ask "$server/api/v1/uploads" --data {announced}"$(wc -c < "$file")"\'}}\') &&\n'
        "link=$(of link) && case $link in /*) link=$server$link ;; esac &&\n"
        'curl --globoff --fail --silent --show-error --upload-file "$file" "$link" &&\n'
        f'ask "$server/api/v1/tasks" --data \'{{"inputs": ["\'"$(of upload)"\'"],{shlex.quote(body[1:])[1:]}'
    )
