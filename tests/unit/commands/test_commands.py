"""Commands: what is data, what is said to people, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from minions.commands.output import MARKS
from tests.unit.commands.conftest import Minions
from tests.unit.scripted_server import Reply, ScriptedServer, completed, problem, serve_parts, task_view

TASK = "/api/v1/tasks/tsk_0000002a"
NEVER = "2126-11-20T11:00:00Z"
BY_NAME = "/api/v1/tasks/by-name/default/default/passages"
EXECUTOR: dict[str, Any] = {
    "id": "exe_00000001",
    "name": "anna-mbp-m3",
    "owner": "anna",
    "version": "0.1.0",
    "state": "paused",
    "reason": "anna is using this Mac",
    "since": "2026-11-20T10:00:00Z",
    "last_seen_at": "2026-11-20T10:00:00Z",
    "silent_seconds": 3.0,
    "registered_at": "2026-11-19T10:00:00Z",
    "device": {"chip": "Apple M3"},
    "kinds": ["embed"],
    "engines": ["embedding"],
    "memory_mb": 36864,
    "preferences": [],
}


def test_the_list_is_data_and_says_what_it_left_out(minions: Minions, script: ScriptedServer) -> None:
    page = {"data": [task_view(), completed(id="tsk_0000002b", task_name="short")], "has_more": True, "last_id": "x"}
    script.on("GET", "/api/v1/tasks", page)
    said = minions("tasks", "ls", "--limit", "1")
    assert said.code == 0
    assert "tsk_0000002a" in said.out
    assert "64.9 %" in said.out
    assert "hf:BAAI/bge-small-en-v1.5" in said.out, "a pipe gets every column, uncut"
    assert "tsk_0000002b" not in said.out
    assert "there are more" in said.err
    assert minions("tasks", "ls", "-q", "--limit", "1").out == "tsk_0000002a\n"
    listed = json.loads(minions("tasks", "ls", "--json", "--limit", "1").out)
    assert [task["id"] for task in listed["data"]] == ["tsk_0000002a"]
    assert listed["has_more"] is True


@pytest.mark.parametrize(
    ("arguments", "path", "said"),
    [
        (["tasks", "ls"], "/api/v1/tasks", "minions submit embed"),
        (["tasks", "ls", "--state", "failed"], "/api/v1/tasks", "No task matches"),
        (["executors", "ls"], "/api/v1/executors", "minions executor"),
        (["tokens", "ls"], "/api/v1/tokens", "minions tokens create"),
    ],
)
def test_empty_lists_say_what_to_do(
    minions: Minions, script: ScriptedServer, arguments: list[str], path: str, said: str
) -> None:
    script.on("GET", path, {"data": [], "has_more": False})
    result = minions(*arguments)
    assert (result.code, result.out) == (0, "")
    assert said in result.err
    assert json.loads(minions(*arguments, "--json").out)["data"] == []


@pytest.mark.parametrize(
    ("view", "code", "said"),
    [
        (completed(), 0, "is complete: 7 rows in 2 min 5 s."),
        (completed(rows={"ok": 7, "failed": 2}), 5, "9 rows in 2 min 5 s, 2 of them failed"),
        (completed(state="failed", state_reason="too many rows failed"), 1, "has failed: too many rows failed"),
        (completed(state="cancelled"), 1, "was cancelled"),
    ],
)
def test_wait_tells_the_end_by_its_exit_code(
    minions: Minions, script: ScriptedServer, view: dict[str, Any], code: int, said: str
) -> None:
    script.on("GET", BY_NAME, task_view())
    script.on("GET", TASK, task_view(), view)
    result = minions("tasks", "wait", "passages")
    assert result.code == code
    assert said in result.err
    assert result.out == ""


def test_wait_times_out(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", TASK, task_view())
    result = minions("tasks", "wait", "tsk_0000002a", "--timeout", "0", "--quiet")
    assert result.code == 6
    assert "has not ended after 0 s" in result.err


def test_watch_streams_a_line_for_each_change(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", TASK, task_view(), task_view(), task_view(), task_view(done_share=0.9), completed())
    result = minions("tasks", "watch", "tsk_0000002a", "--json")
    assert [json.loads(line)["done_share"] for line in result.out.splitlines()] == [0.649, 0.9, 1.0]
    assert result.err == ""


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (problem(403, "access_denied", "the token expired", hint="make another"), 3, "the token expired\nmake another"),
        (problem(404, "not_found", "there is no task passages"), 4, "there is no task passages"),
        (problem(409, "conflict", "it has ended"), 1, "it has ended"),
        (Reply(500, b"<html>oops"), 1, "answered 500"),
        (Reply(body=b"hello"), 1, "Minion Server"),
    ],
)
def test_errors_are_one_sentence(minions: Minions, script: ScriptedServer, reply: Reply, code: int, said: str) -> None:
    script.on("GET", BY_NAME, reply)
    result = minions("tasks", "show", "passages")
    assert result.code == code
    assert said in result.err
    assert result.out == ""
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("memory_mb", "estimate", "said"),
    [
        (6144, "4.7 GB (weights in an executor's cache)", "6 GB, the next size above 4.7 GB (weights in an"),
        (6144, "6 GB (as the task says)", "6 GB (as the task says)"),
        (1024, "700 MB (as the task says)", "1 GB, the next size above 700 MB (as the task says)"),
    ],
)
def test_a_need_is_said_as_executors_are_told_it(
    minions: Minions, script: ScriptedServer, memory_mb: int, estimate: str, said: str
) -> None:
    """`needs 6 GB` is what keeps an executor away; beside it stands where that comes from."""
    script.on("GET", BY_NAME, task_view(memory_mb=memory_mb, memory_from=estimate))
    shown = " ".join(minions("tasks", "show", "passages").out.split())
    assert f"needs {said}" in shown


def test_an_unreachable_server(minions: Minions) -> None:
    result = minions("tasks", "ls", "--server", "http://127.0.0.1:9")
    assert result.code == 7
    assert "http://127.0.0.1:9 (connection refused)" in result.err
    assert "minions up" in result.err


def test_all_mistakes_are_shown_by_their_flags(minions: Minions) -> None:
    wrong = ["--name", "A", "--prompt", "none", "--priority", "7000"]
    params = ["--param", "temprature=1", "--param", "seed=x", "--param", "stop"]
    result = minions("submit", "complete", "missing.jsonl", "--model", "bge", *wrong, *params)
    assert result.code == 2
    for said in (
        "INPUT: missing.jsonl: no such file", "--model: 'bge'", "--name: 'A'", "--prompt: ", "--priority: ",
        "no parameter 'temprature'",
        "temperature, think, top_k", "--param seed: ", "'stop' is no name=value",
    ):  # fmt: skip
        assert said in result.err


def test_the_servers_mistakes_are_shown_by_their_flags(minions: Minions, script: ScriptedServer) -> None:
    errors = [
        {"field": "parameters.column", "code": "no_column", "message": "there is no column 'body'"},
        {"field": "inputs[0]", "code": "missing", "message": "is not there"},
        {"field": "parameters.dimensions", "code": "bad", "message": "too many"},
    ]
    script.on("POST", "/api/v1/tasks", problem(422, "validation_failed", "3 errors", errors=errors))
    result = minions("submit", "embed", "s3://bucket/a.jsonl", "-m", "hf:a/b")
    assert result.code == 2
    assert "--column: there is no column 'body'" in result.err
    assert "s3://bucket/a.jsonl: is not there" in result.err
    assert "--param dimensions: too many" in result.err


def test_submit_sends_typed_parameters_and_prints_the_id(minions: Minions, script: ScriptedServer) -> None:
    script.on("POST", "/api/v1/tasks", Reply(201, task_view()))
    (minions.directory / "prompt.txt").write_text("Summarise: {body}")
    result = minions(
        "submit", "complete", "s3://bucket/a.jsonl", "-m", "ollama:llama3.2", "--prompt", "@prompt.txt",
        "--param", "max_tokens=64", "--param", "stop=A", "--param", "stop=B", "--param", "think=low",
        "--param", "seed=7", "--keep", "a,b", "--keep", "c", "--team", "search", "--idempotency-key", "k1",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "tsk_0000002a\n")
    assert "minions tasks watch tsk_0000002a" in result.err
    request = script.asked("POST", "/api/v1/tasks")[0]
    sent = json.loads(request.body)
    assert request.headers["idempotency-key"] == "k1"
    parameters = sent["parameters"]
    assert sent["team"] == "search"
    assert parameters["prompt"] == "Summarise: {body}"
    assert (parameters["max_tokens"], parameters["stop"], parameters["seed"]) == (64, ["A", "B"], 7)
    assert (parameters["think"], parameters["keep"]) == ("low", ["a", "b", "c"])


def test_standard_input_is_uploaded(minions: Minions, script: ScriptedServer) -> None:
    link = f"{script.url}/objects/1"
    answer = {"upload": "upl_00000001", "link": link, "expires_at": "2026-11-20T11:00:00Z"}
    script.on("POST", "/api/v1/uploads", Reply(201, answer))
    script.on("PUT", "/objects/1", Reply(200, {}))
    script.on("POST", "/api/v1/tasks", Reply(201, task_view()))
    assert minions("submit", "embed", "-", "-m", "hf:a/b", "-q", stdin='{"text": "a"}\n').out == "tsk_0000002a\n"
    assert script.asked("PUT", "/objects/1")[0].body == b'{"text": "a"}\n'


def test_results_go_to_a_file_and_never_over_another(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", BY_NAME, completed())
    serve_parts(script, [(0, 0, 20, [None, "empty_text"])])
    result = minions("tasks", "results", "passages")
    assert (result.code, result.out) == (0, "passages.parquet\n")
    assert "2 rows" in result.err
    again = minions("tasks", "results", "passages")
    assert again.code == 1
    assert "is there already" in again.err
    assert "--overwrite" in again.err
    assert minions("tasks", "results", "passages", "--overwrite", "-q").code == 0
    lines = [json.loads(line) for line in minions("tasks", "results", "passages", "-o", "-").out.splitlines()]
    assert [(line["row"], line["status"]) for line in lines] == [(0, "ok"), (1, "failed")]


def listing(directory: Path) -> list[str]:
    return sorted(str(each.relative_to(directory)) for each in directory.rglob("*"))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("none/x.jsonl", "--output: there is no folder none"),
        ("none/", "--output: there is no folder none"),
        ("file/x.jsonl", "--output: there is no folder file, but a file of that name"),
        ("odd", "--output: odd/passages.parquet is a folder"),
    ],
)
def test_results_look_at_their_place_before_anything_is_fetched(
    minions: Minions, script: ScriptedServer, output: str, said: str
) -> None:
    script.on("GET", BY_NAME, completed())
    (minions.directory / "odd" / "passages.parquet").mkdir(parents=True)
    (minions.directory / "file").touch()
    before = listing(minions.directory)
    result = minions("tasks", "results", "passages", "-o", output, "--overwrite")
    assert result.code == 2
    assert said in result.err
    assert "another" in result.err, "the way out"
    assert "stored" not in result.err
    assert len(script.requests) == 1
    assert listing(minions.directory) == before


@pytest.mark.parametrize("output", ["there", "there/"])
def test_results_go_into_a_folder_that_is_there(minions: Minions, script: ScriptedServer, output: str) -> None:
    script.on("GET", BY_NAME, completed())
    serve_parts(script, [(0, 0, 20, [None])])
    (minions.directory / "there").mkdir()
    assert minions("tasks", "results", "passages", "-o", output).out == "there/passages.parquet\n"
    assert listing(minions.directory) == ["there", "there/passages.parquet"]


def test_a_pattern_that_the_shell_left_alone_is_expanded(minions: Minions, script: ScriptedServer) -> None:
    link = f"{script.url}/objects/1"
    script.on("POST", "/api/v1/uploads", Reply(201, {"upload": "upl_00000001", "link": link, "expires_at": NEVER}))
    script.on("PUT", "/objects/1", Reply(200, {}))
    script.on("POST", "/api/v1/tasks", Reply(201, task_view()))
    for name in ("s2.jsonl", "s1.jsonl", "t.jsonl"):
        (minions.directory / name).write_text(f'{{"text": "{name}"}}\n')
    assert minions("submit", "embed", "s*.jsonl", "-m", "hf:a/b", "-q").code == 0
    assert [b"s1" in each.body or b"s2" in each.body for each in script.asked("PUT", "/objects/1")] == [True, True]
    assert "nothing*: no such file" in minions("submit", "embed", "nothing*", "-m", "hf:a/b").err


def test_only_what_would_have_been_stored_is_said_not_to_be(minions: Minions, script: ScriptedServer) -> None:
    errors = [{"field": "state", "code": "unknown", "message": "'x' is none"}]
    script.on("GET", "/api/v1/tasks", problem(422, "validation_failed", "1 error", errors=errors))
    assert "stored" not in minions("tasks", "ls", "--state", "x").err
    assert "stored" not in minions("tasks", "ls", "--token-file", "none").err
    assert "nothing was stored" in minions("submit", "embed", "none.jsonl", "-m", "hf:a/b").err


def test_two_executors_of_one_name_are_told_apart_by_their_ids(minions: Minions, script: ScriptedServer) -> None:
    twins = [EXECUTOR, EXECUTOR | {"id": "exe_00000002"}]
    script.on("GET", "/api/v1/executors", {"data": twins, "has_more": False})
    said = minions("executors", "show", "anna-mbp-m3")
    assert said.code == 2
    assert "exe_00000001, exe_00000002" in said.err


def test_a_pipe_gets_no_blanks_behind_a_line(minions: Minions, script: ScriptedServer) -> None:
    views = [task_view(), completed(id="tsk_0000002b", task_name="short", model="hf:a/b")]
    long = EXECUTOR | {"reason": "somebody is using this Mac, " * 8 + "says it"}
    script.on("GET", "/api/v1/tasks", {"data": views, "has_more": False})
    script.on("GET", "/api/v1/executors", {"data": [long], "has_more": False})
    script.on("GET", "/api/v1/executors/exe_00000001", long)
    for arguments in (["tasks", "ls"], ["executors", "ls"], ["executors", "show", "exe_00000001"]):
        lines = minions(*arguments).out.splitlines()
        assert len(lines) > 1
        assert lines == [line.rstrip() for line in lines]


def test_each_state_has_a_shape_of_its_own() -> None:
    """Those of the web: who does not see colours tells what runs from what is done, and what failed from both."""
    shape = {name: mark for name, (mark, _) in MARKS.items()}
    apart = ["running", "completed", "failed", "cancelled", "paused", "queued", "idle"]
    assert len({shape[name] for name in apart}) == len(apart)


def test_unfinished_results_must_be_asked_for(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", BY_NAME, task_view())
    serve_parts(script, [(0, 0, 20, [None])], complete=False)
    result = minions("tasks", "results", "passages", "-o", "out.csv")
    assert result.code == 1
    assert "--partial" in result.err
    assert not list(minions.directory.iterdir())
    assert minions("tasks", "results", "passages", "-o", "out.csv", "--partial").code == 0


def test_errors_are_grouped_then_listed(minions: Minions, script: ScriptedServer) -> None:
    rows = {"ok": 1, "failed": 2, "failures": {"empty_text": 1, "bad_record": 1}}
    script.on("GET", BY_NAME, completed(rows=rows))
    serve_parts(script, [(0, 0, 20, [None, "empty_text"]), (1, 20, 30, ["bad_record"])])
    result = minions("tasks", "errors", "passages", "--limit", "1")
    assert result.code == 0
    assert "33.33 %" in result.out
    assert "p10" in result.out
    assert "p20" not in result.out
    assert "1 of 2 failed rows shown" in result.err
    data = json.loads(minions("tasks", "errors", "passages", "--json").out)
    assert [(row["position"], row["row"], row["code"]) for row in data["data"]] == [
        (10, 1, "empty_text"),
        (20, 2, "bad_record"),
    ]


def test_subtasks_that_were_set_aside_are_told_by_cause(minions: Minions, script: ScriptedServer) -> None:
    def entry(number: int, message: str, **more: Any) -> dict[str, Any]:
        failed = {"at": "2026-11-20T10:02:05Z", "entry": "failed", "attempt": 3, "reason": "input_unreadable"}
        return {**failed, "subtask_id": number, "message": message, **more}

    entries = [entry(number, "the input changed") for number in range(7)]
    entries += [entry(7, "b.parquet: no such column"), entry(8, "long gone", superseded=True)]
    failed = completed(state="failed", state_reason="x", rows={"ok": 0}, subtasks={"total": 8, "failed": 8})
    script.on("GET", BY_NAME, failed)
    script.on("GET", f"/api/v1/tasks/{failed['id']}/ledger", Reply(200, {"data": entries}))
    serve_parts(script, [])
    result = minions("tasks", "errors", "passages", COLUMNS="160")
    assert result.code == 0
    first, second = [line for line in result.out.splitlines() if "input_unreadable" in line]
    assert (first.split()[0], "0, 1, 2, 3, 4 and 2 more" in first, "the input changed" in first) == ("7", True, True)
    assert (second.split()[0], "b.parquet" in second) == ("1", True)
    assert "No row" not in result.err
    assert script.requests[-1].query["entry"] == ["failed"]
    data = json.loads(minions("tasks", "errors", "passages", "--json").out)
    assert [(each["code"], each["subtasks"]) for each in data["set_aside"]] == [
        ("input_unreadable", 7),
        ("input_unreadable", 1),
    ]


def test_show_says_why_it_waits(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", BY_NAME, task_view(waiting=["no executor has 64 GB of memory"], executors=0))
    entry = {"at": "2026-11-20T10:00:00Z", "subtask_id": 3, "entry": "lost", "attempt": 1, "reason": "silent for 90 s"}
    script.on("GET", f"{TASK}/ledger", {"data": [entry], "has_more": False})
    result = minions("tasks", "show", "passages", "--events")
    assert "no executor has 64 GB of memory" in result.out
    assert "silent for 90 s" in result.out


def test_one_that_cannot_be_cancelled_does_not_keep_the_others(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", TASK, task_view())
    script.on("POST", f"{TASK}/cancel", task_view(state="cancelled"))
    result = minions("tasks", "cancel", "missing", "tsk_0000002a", "-q")
    assert (result.code, result.out) == (4, "tsk_0000002a\n")


RETRIED = {"dry_run": False, "rows": 41, "subtasks": 9, "set_aside": 1, "cancelled": 2}


def test_retry_says_what_is_run_again_and_waits(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", BY_NAME, completed())
    script.on("POST", f"{TASK}/retry", {"task": task_view(), **RETRIED})
    script.on("GET", TASK, task_view(), completed(rows={"ok": 7, "failed": 2}))
    result = minions("tasks", "retry", "passages", "--code", "engine_refused", "--code", "overflow", "--wait")
    assert result.code == 5
    what = "41 failed rows in 6 subtasks and 1 subtask that was set aside and 2 subtasks that were cancelled"
    assert f"Running again {what} of default/default/passages." in result.err
    asked = [json.loads(request.body) for request in script.asked("POST", f"{TASK}/retry")]
    codes = ["engine_refused", "overflow"]
    assert asked == [
        {"codes": codes, "dry_run": True, "retries": None},
        {"codes": codes, "dry_run": False, "retries": 0},
    ]


def test_a_dry_run_of_a_retry_only_asks(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", TASK, completed())
    script.on("POST", f"{TASK}/retry", {"task": completed(), **RETRIED, "dry_run": True})
    result = minions("tasks", "retry", "tsk_0000002a", "--dry-run", "--wait", "--json")
    assert result.code == 0
    said = json.loads(result.out)
    assert (said["rows"], said["subtasks"], said["dry_run"], said["task"]["state"]) == (41, 9, True, "completed")
    (asked,) = script.asked("POST", f"{TASK}/retry")
    assert json.loads(asked.body) == {"codes": None, "dry_run": True, "retries": None}


def test_what_cannot_be_retried_is_one_sentence(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", TASK, task_view())
    script.on("POST", f"{TASK}/retry", problem(409, "conflict", "only a task that has ended can be retried"))
    result = minions("tasks", "retry", "tsk_0000002a")
    assert (result.code, result.out) == (1, "")
    assert "only a task that has ended can be retried" in result.err


def test_executors_show_state_and_reason(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", "/api/v1/executors", {"data": [EXECUTOR], "has_more": False})
    assert "anna is using this Mac" in minions("executors", "ls").out
    device = {
        "chip": "Apple M3",
        "gpu_cores": 10,
        "engines": {"embedding": "sentence-transformers 5"},
        "models": [{"model": "hf:org/name", "size_bytes": 90_000_000}, "nonsense"],
    }
    idle = ["2 tasks: need 24 GB, you have 16 GB"]
    one = EXECUTOR | {"device": device, "teams": ["search"], "idle": idle}
    script.on("GET", f"/api/v1/executors/{EXECUTOR['id']}", one)
    shown = minions("executors", "show", "anna-mbp-m3").out
    for said in ("chip=Apple M3  gpu_cores=10", "embedding: sentence-transformers 5", "hf:org/name  90.0 MB", *idle):
        assert said in shown
    assert "nonsense" not in shown
    assert minions("executors", "show", "nobody").code == 4


def test_an_executor_that_is_silent_with_work_says_since_when(minions: Minions, script: ScriptedServer) -> None:
    heard = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
    silent = EXECUTOR | {"state": "offline", "reason": "no sign of life", "holds": 3, "last_seen_at": heard.isoformat()}
    script.on("GET", "/api/v1/executors", {"data": [silent], "has_more": False})
    script.on("GET", f"/api/v1/executors/{EXECUTOR['id']}", silent)
    server = {"version": "1", "label": "development", "accepts_files": True}
    told = f"silent since {heard.astimezone():%Y-%m-%d %H:%M}, still holds 3 subtasks"
    for arguments in (["executors", "ls"], ["executors", "show", EXECUTOR["id"]]):
        script.on("GET", "/api/v1/server", server | {"watchdog": False})
        said = minions(*arguments)
        assert (said.code, told in " ".join(said.out.split())) == (0, True), said.out
        assert "No watchdog runs" in said.err
        assert "minions watchdog" in said.err
        script.on("GET", "/api/v1/server", server | {"watchdog": True})
        assert minions(*arguments).err == ""


def test_a_task_says_who_is_silent_with_it_and_what_to_do(minions: Minions, script: ScriptedServer) -> None:
    silent = [{"executor": "mac-of-ada", "last_seen_at": "2026-11-20T10:00:00Z", "holds": 1}]
    script.on("GET", BY_NAME, task_view(silent=silent))
    shown = " ".join(minions("tasks", "show", "passages").out.split())
    assert "silent mac-of-ada since 2026-11-20" in shown
    assert (
        "still holds 1 subtask; no watchdog runs that would give back what it holds: start `minions watchdog`" in shown
    )


def test_a_tokens_secret_is_the_only_data(minions: Minions, script: ScriptedServer) -> None:
    made = {
        "id": "tok_00000001", "name": "ci", "scope": "submit", "created_at": "2026-11-20T10:00:00Z", "secret": "s3cr3t",
    }  # fmt: skip
    script.on("POST", "/api/v1/tokens", Reply(201, made))
    script.on("DELETE", "/api/v1/tokens/tok_00000001", Reply(204, b""))
    assert minions("tokens", "create", "ci", "--team", "search").out == "s3cr3t\n"
    assert json.loads(script.asked("POST", "/api/v1/tokens")[0].body)["teams"] == ["search"]
    assert minions("tokens", "create", "ci", "--expires-days", "-1").code == 2
    assert minions("tokens", "revoke", "tok_00000001").code == 0


def test_settings_say_where_they_come_from(minions: Minions) -> None:
    token = "a-very-long-token-that-nobody-sees"
    shown = json.loads(minions("config", "show", "--json", MINIONS_TOKEN=token).out)
    assert shown["server"]["source"] == "MINIONS_SERVER"
    assert shown["token"] == {"value": "a-ve…es", "source": "MINIONS_TOKEN", "note": ""}
    (minions.directory / "token").write_text("from-a-file-with-a-newline\n")
    shown = json.loads(minions("config", "show", "--json", "--token-file", "token").out)
    assert shown["token"]["source"] == "flag"
    assert minions("config", "show", "--token-file", "none").code == 2


def test_colours_only_where_they_are_wanted(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", "/api/v1/tasks", {"data": [task_view()], "has_more": False})
    assert "\x1b[" not in minions("tasks", "ls").out
    assert "\x1b[3" not in minions("tasks", "ls", FORCE_COLOR="1", NO_COLOR="1").out


def test_a_reader_that_leaves_is_no_error(minions: Minions, script: ScriptedServer) -> None:
    script.on("GET", BY_NAME, completed())
    serve_parts(script, [(0, 0, 80000, [None] * 8000)])
    command = f"{sys.executable} -m minions.commands.main tasks results passages -o - | head -1"
    done = subprocess.run(command, shell=True, cwd=minions.directory, capture_output=True, text=True, check=False)
    assert done.stdout.startswith('{"row":0,')
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["tasks", "wat"], ["submit", "embed"], ["tasks", "show"], ["--wat"]])
def test_usage_mistakes(minions: Minions, arguments: list[str]) -> None:
    assert minions(*arguments).code == 2


def test_a_wrong_prompt_is_one_error_at_its_flag(minions: Minions) -> None:
    Path("in.jsonl").write_text('{"text": "a"}\n')
    for prompt, said in (("x {text", "--prompt: a brace stands alone"), ("@nofile", "--prompt: nofile: no such file")):
        result = minions("submit", "complete", "in.jsonl", "--model", "ollama:x", "--prompt", prompt)
        assert result.code == 2
        (line,) = [line for line in result.err.splitlines() if line.startswith("error")]
        assert said in line
