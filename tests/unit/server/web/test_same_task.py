"""The same task elsewhere: the command, the Python and the request say what the task is, and are real."""

from __future__ import annotations

import ast
import inspect
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minions.client.client import Client
from minions.client.inputs import opened_inputs
from minions.commands.submit import complete, embed
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.server.web.views.same_task import SameTask, TaskText, own_input, same_task, upload_id
from minions.wire.tasks import SubmitRequest

NASTY = "Say \"$(rm -rf ~)\" 'to' {name}\nthen `stop`; é"
COMPLETE = TaskText(
    team="support", project="tickets", task_name="sums", model="ollama:llama3.2",
    parameters=CompleteParameters.model_validate(
        {"prompt": NASTY, "system": "@home", "max_tokens": 9, "keep": ("a b", "c"), "stop": ("END",), "seed": 3}
    ),
    inputs=["upl_0000002a", "s3://b/k*"], input_format="csv", output_format="jsonl",
    priority=5,
)  # fmt: skip
EMBED = TaskText(
    team="default",
    project="default",
    task_name="",
    model="hf:a/b",
    parameters=EmbedParameters.model_validate({}),
    file="p.jsonl",
)


def texts_of(task: TaskText, server: str = "http://x") -> SameTask:
    found = same_task(task, server)
    assert found is not None
    return found


def flags_of(command: str) -> dict[str, list[str]]:
    words = shlex.split(command.replace(" \\\n", " "))  # shlex takes no line breaks as a shell does
    assert words[:2] == ["minions", "submit"]
    found: dict[str, list[str]] = {"inputs": []}
    rest = iter(words[3:])
    for word in rest:
        if word.startswith("--"):
            found.setdefault(word, []).append(next(rest))
        else:
            found["inputs"].append(word)
    return found


def test_the_command_survives_a_shell() -> None:
    found = flags_of(texts_of(COMPLETE).command)
    assert found["inputs"] == ["upl_0000002a", "s3://b/k*"]
    assert found["--prompt"] == [NASTY]
    assert found["--system"] == ["@@home"]  # a leading @ would name a file
    assert found["--keep"] == ["a b", "c"]
    assert found["--param"] == ["max_tokens=9", "seed=3", "stop=END"]
    assert found["--priority"] == ["5"]


def test_the_command_uses_flags_that_exist() -> None:
    for module, task in ((complete, COMPLETE), (embed, EMBED)):
        known = inspect.getsource(module) + inspect.getsource(
            __import__("minions.commands.submit.options", fromlist=["x"])
        )
        for flag in flags_of(texts_of(task).command):
            assert flag == "inputs" or f'"{flag}"' in known, flag


def test_what_is_as_it_would_be_anyway_is_left_away() -> None:
    found = texts_of(EMBED)
    assert found.command == "minions submit embed p.jsonl \\\n  --model hf:a/b"
    assert "column" not in found.python


def calls_of(text: str) -> dict[str, ast.Call]:
    tree = ast.parse(text)
    return {
        node.func.attr: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def inputs_of(call: ast.Call) -> Any:
    return eval(compile(ast.Expression(call.args[0]), "inputs", "eval"), {"Path": Path})


def test_the_python_names_inputs_as_the_client_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = inputs_of(calls_of(texts_of(COMPLETE).python)["complete"])
    with opened_inputs(given, "text") as inputs:
        assert [(each.uri, each.file) for each in inputs] == [("upl_0000002a", None), ("s3://b/k*", None)]
    for name in ("~in put.csv", "-", "upl_1"):
        (tmp_path / name).write_text("text\na\n")
        task = replace(EMBED, file=name)
        with opened_inputs(inputs_of(calls_of(texts_of(task).python)["embed"]), "text") as inputs:
            assert inputs[0].file is not None
            assert inputs[0].file.filename == name
        assert flags_of(texts_of(task).command)["inputs"] == [f"./{name}"]


def test_what_is_pasted_goes_along_however_it_looks() -> None:
    rows = '{"text": "END"}\nEND\n\u2028\'$x\n'
    command = texts_of(replace(EMBED, file="", pasted=rows)).command
    assert command.endswith(f" <<'END_'\n{rows}END_")
    written = calls_of(texts_of(replace(EMBED, file="", pasted=rows)).python)["write_text"]
    assert ast.literal_eval(written.args[0]) == rows
    assert same_task(replace(EMBED, file="", pasted="x" * 4001), "http://x") is None


def test_the_python_calls_what_exists_with_the_same_values() -> None:
    for task in (COMPLETE, EMBED):
        call = calls_of(texts_of(task).python)[task.parameters.kind]
        values: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        signature = inspect.signature(getattr(Client, task.parameters.kind))
        signature.bind(None, inputs_of(call), **values)
        named = {name for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD}
        assert set(values) - named <= set(type(task.parameters).model_fields)
    call = calls_of(texts_of(COMPLETE).python)["complete"]
    assert NASTY in [ast.literal_eval(word.value) for word in call.keywords]


def test_the_request_is_one() -> None:
    words = shlex.split(texts_of(COMPLETE, "https://minions.example").curl)
    assert words[1] == "https://minions.example/api/v1/tasks"
    request = SubmitRequest.model_validate(json.loads(words[words.index("--data") + 1]))
    assert request.parameters == COMPLETE.parameters
    assert request.inputs == ["upl_0000002a", "s3://b/k*"]
    assert (request.task_name, request.priority, request.output_format) == ("sums", 5, "jsonl")


def test_inputs_of_our_own_store_are_named_as_people_know_them() -> None:
    assert own_input("objects:uploads/upl_1/a.csv") == "a.csv"
    assert upload_id("objects:uploads/upl_1/a.csv") == "upl_1"
    assert own_input("s3://b/a.csv") == upload_id("s3://b/a.csv") == "s3://b/a.csv"
