"""A new task: by upload, by URI and by pasted lines, with a preview, and with every mistake beside its field."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from minions.server.web.views.new_task import MOST_PASTED
from tests.integration.server.driving import Served, ok, submit, until
from tests.integration.server.web.browsing import FROM_HERE, signed_in, text_of, words
from tests.integration.server.web.working import work, worker

ROWS = b"".join(json.dumps({"pid": f"p{at}", "body": f"text {at} <b>"}).encode() + b"\n" for at in range(40))
HOSTILE = "\"><script>alert('x')</script>"


async def send(client: httpx.AsyncClient, path: str = "/tasks/new", file: Any = None, **fields: str) -> httpx.Response:
    """The form as a browser sends it: multipart, with an empty file when none was chosen."""
    files = {"file": file or ("", b"", "application/octet-stream")}
    return await client.post(path, data=fields, files=files, headers=FROM_HERE)


async def put(client: httpx.AsyncClient, content: bytes, filename: str = "rows.jsonl") -> dict[str, Any]:
    """A file as the script sends it."""
    return await ok(
        client.post("/tasks/uploads", params={"filename": filename}, content=content, headers=FROM_HERE), 201
    )  # fmt: skip


def typed(page: str) -> dict[str, str]:
    """What the form holds."""
    found = {
        name: unescape(value)
        for name, value in re.findall(r'<input id="f-\w+" name="(\w+)"[^>]*? value="([^"]*)"', page)
    }
    found |= {
        name: unescape(text)
        for name, text in re.findall(r'(?s)<textarea id="f-\w+" name="(\w+)"[^>]*>\n(.*?)</textarea>', page)
    }
    for name, options in re.findall(r'(?s)<select id="f-\w+" name="(\w+)"[^>]*>(.*?)</select>', page):
        chosen = re.search(r'value="([^"]*)" selected', options)
        found[name] = chosen[1] if chosen else ""
    found |= dict(re.findall(r'<input type="radio" name="(\w+)" value="(\w+)" checked', page))
    return found


def wrong(page: str) -> dict[str, str]:
    """The fields that say that they are wrong, each with the text that it is described by."""
    found: dict[str, str] = {}
    for field, described in re.findall(r'id="f-(\w+)"[^>]*aria-invalid="true" aria-describedby="([^"]+)"', page):
        text = re.search(rf'(?s)id="{described.split()[0]}">(.*?)</p>', page)
        assert text, field
        found[field] = unescape(text[1])
    return found


def task_of(answer: httpx.Response) -> str:
    """The task to which the answer leads."""
    assert answer.status_code == 303, words(answer.text)
    return answer.headers["location"].rsplit("/", 1)[-1]


async def test_a_file_goes_up_is_previewed_and_becomes_a_task(served: Served) -> None:
    client = await signed_in(served)
    uploaded = await put(client, ROWS)
    fields = {"source": "file", "upload": uploaded["upload"], "filename": "rows.jsonl", "model": "hf:a/b"}
    preview = (await send(client, "/tasks/new/preview", **fields)).text
    assert preview.strip().startswith('<aside id="preview"')
    said = words(preview)
    assert "rows.jsonl" in said
    assert "JSON Lines. 40 rows looked at." in said
    assert "body text" in said  # the column it would take
    assert "pid id" in said
    assert "text 0 <b>" in said
    assert "minions submit embed rows.jsonl" in said
    task = task_of(await send(client, do="start", **fields))
    view = await until(served.client, task, "running")
    assert view["parameters"]["column"] == "body"
    assert view["parameters"]["id"] == "pid"
    assert view["task_name"] == "rows"
    await work(await worker(served))
    assert (await until(served.client, task, "completed"))["rows"]["ok"] == 40


async def test_a_file_goes_with_the_form_where_no_script_runs(served: Served) -> None:
    client = await signed_in(served)
    page = await send(client, file=("my rows.jsonl", ROWS, "application/jsonl"), do="preview", source="file")
    assert page.status_code == 200
    assert "my rows.jsonl" in words(page.text)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    assert hidden["filename"] == "my rows.jsonl"
    fields = typed(page.text) | {"model": "hf:a/b", "do": "start"} | hidden
    view = await until(served.client, task_of(await send(client, **fields)), "running")
    assert view["parameters"]["column"] == "body"


async def test_pasted_lines_become_rows(served: Served) -> None:
    client = await signed_in(served)
    fields = {"source": "lines", "lines": "first\nsecond <b>\n\n", "model": "hf:a/b", "task_name": "pasted-ones"}
    assert "second <b>" in words((await send(client, "/tasks/new/preview", **fields)).text)
    task = task_of(await send(client, do="start", **fields))
    await until(served.client, task, "running")
    await work(await worker(served))
    assert (await until(served.client, task, "completed"))["rows"]["ok"] == 2
    assert "second <b>" in words(await text_of(client, f"/tasks/{task}/results"))


async def test_a_uri_is_read_where_it_lies(served: Served, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,body\n1,hello\n2,there\n")
    client = await signed_in(served)
    fields = {"source": "uri", "uri": f"file://{tmp_path}/t.csv", "kind": "complete", "model": "ollama:x"}
    said = words((await send(client, "/tasks/new/preview", prompt="Say {body}", **fields)).text)
    assert "CSV" in said
    assert "Say hello" in said
    view = await until(served.client, task_of(await send(client, do="start", prompt="Say {body}", **fields)), "running")
    assert view["parameters"]["prompt"] == "Say {body}"


async def test_sending_the_form_twice_makes_one_task(served: Served) -> None:
    client = await signed_in(served)
    key = re.search(r'name="key" value="(\w+)"', await text_of(client, "/tasks/new"))
    assert key
    lines = {"source": "lines", "lines": "one", "model": "hf:a/b", "key": key[1], "do": "start"}
    assert task_of(await send(client, **lines)) == task_of(await send(client, **lines))
    uploaded = await put(client, ROWS)
    file = {"source": "file", "upload": uploaded["upload"], "model": "hf:a/b", "key": "other", "do": "start"}
    assert task_of(await send(client, **file)) == task_of(await send(client, **file))


@pytest.mark.parametrize(
    ("changed", "field", "said"),
    [
        ({"model": ""}, "model", "name a model"),
        ({"model": "gpt"}, "model", "is no model reference"),
        ({"model": "ollama:x"}, "model", "embeddings run on"),
        ({"lines": ""}, "lines", "paste one row a line"),
        ({"lines": "é\n" * (MOST_PASTED // 2 + 1)}, "lines", "1,000,002 characters were pasted, 1,000,000 at most"),
        ({"source": "uri", "uri": ""}, "uri", "s3://"),
        ({"source": "uri", "uri": "ftp://x"}, "uri", "is no URI of an object: write s3://bucket/key"),
        ({"source": "uri", "uri": "file:///nowhere/x.jsonl"}, "uri", ""),
        ({"source": "file"}, "file", "choose a file"),
        ({"source": "file", "upload": "upl_zzzz"}, "file", "no upload"),
        ({"column": "nope"}, "column", "no column 'nope'"),
        ({"id": "nope"}, "id", "no column 'nope'"),
        ({"keep": "text,nope"}, "keep", "no column 'nope'"),
        ({"team": "Bad Team"}, "team", "is not a name"),
        ({"project": "-"}, "project", "is not a name"),
        ({"task_name": "Ä"}, "task_name", "is not a name"),
        ({"priority": "soon"}, "priority", "whole number"),
        ({"dimensions": "0"}, "dimensions", "must be at least"),
        ({"kind": "complete", "model": "ollama:x", "prompt": "no braces"}, "prompt", "names no {column}"),
        ({"kind": "complete", "model": "ollama:x", "prompt": "{nope}"}, "prompt", "no column 'nope'"),
        ({"kind": "complete", "model": "ollama:x", "max_tokens": "9999"}, "max_tokens", "smaller"),
        ({"kind": "complete", "model": "ollama:x", "output_schema": "{"}, "output_schema", "no JSON"),
    ],
)
async def test_each_mistake_is_beside_its_field_and_nothing_typed_is_lost(
    served: Served, changed: dict[str, str], field: str, said: str
) -> None:
    client = await signed_in(served)
    given = {
        "source": "lines", "lines": f"one {HOSTILE}\ntwo", "uri": "", "kind": "embed", "model": "hf:a/b",
        "column": "text", "id": "", "keep": "", "embed_prompt": HOSTILE, "system": "Be </textarea> kind",
        "team": "default", "project": "default", "task_name": "", "priority": "7", "output_format": "jsonl",
        "dtype": "float16", **changed,
    }  # fmt: skip
    answer = await send(client, do="start", **given)
    assert answer.status_code == 200
    page = answer.text
    assert said in wrong(page).get(field, f"nothing beside {field}, but {wrong(page)}")
    assert f'href="#f-{field}"' in page  # the summary leads there
    kept = typed(page)
    for name, value in given.items():
        if name not in ("upload",) and not (name == "prompt" and not value):
            assert kept.get(name) == value, name
    assert "<script>alert" not in page
    assert not (await ok(served.client.get("/api/v1/tasks")))["data"]  # nothing was stored


async def test_a_paste_that_is_too_long_is_told_before_it_is_sent(served: Served) -> None:
    client = await signed_in(served)
    said = words((await send(client, "/tasks/new/preview", source="lines", lines="x" * (MOST_PASTED + 1))).text)
    assert "1,000,001 characters were pasted" in said
    answer = await send(client, source="lines", lines="x" * (9 << 20), do="start")
    assert answer.status_code == 422
    assert "a field may have 8 MiB" in words(answer.text)
    longest = await send(client, source="lines", lines="漢" * MOST_PASTED, model="hf:a/b", do="start")
    task_of(longest)


async def test_all_mistakes_are_told_at_once(served: Served) -> None:
    client = await signed_in(served)
    given = {"do": "start", "source": "lines", "lines": "x", "model": "gpt", "team": "A", "column": "nope", "id": "no"}
    numbers = {"dimensions": "many", "max_failed_share": "7", "priority": "soon"}
    answer = await send(client, **given, keep="also,not", **numbers)
    told = ["model", "column", "id", "keep", "dimensions", "max_failed_share", "team", "priority"]
    assert set(wrong(answer.text)) == set(told)
    # In the order of the page, and where a section is closed, it is opened.
    assert re.findall(r'<li><a href="#f-(\w+)">', answer.text) == told
    assert set(re.findall(r'<details id="(more-\w+)" open>', answer.text)) == {"more-work", "more-name"}

    prompts = {"kind": "complete", "prompt": "no braces", "max_tokens": "9999", "temperature": "hot", "top_p": "x"}
    answer = await send(client, **given, **prompts)
    assert set(wrong(answer.text)) == {"model", "prompt", "max_tokens", "temperature", "id", "top_p", "team"}
    uploaded = await put(client, ROWS)
    file = {"do": "start", "source": "file", "upload": uploaded["upload"], "column": "nope", "priority": "x"}
    assert set(wrong((await send(client, **file)).text)) == {"model", "column", "priority"}
    assert [each async for each in served.deployment.objects.list("uploads")][1:] == []  # of lines nothing was stored


async def test_errors_are_in_the_words_of_the_form(served: Served) -> None:
    client = await signed_in(served)
    uploaded = await put(client, b"no format tells itself\n", "rows.dat")
    fields = {"source": "file", "upload": uploaded["upload"], "filename": "rows.dat", "model": "hf:a/b"}
    for answer in (await send(client, "/tasks/new/preview", **fields), await send(client, do="start", **fields)):
        assert "name its format with “Format of the input” under Priority and formats" in words(answer.text)
        assert "--format" not in words(answer.text)
    preview = await send(client, "/tasks/new/preview", source="uri", uri="tickets.csv", model="hf:a/b")
    assert "'tickets.csv' is no URI of an object: write s3://bucket/key" in words(preview.text)
    assert "upl_" not in preview.text
    assert "0 B" not in words(preview.text)
    named = await send(client, do="start", source="lines", lines="x", model="hf:a/b", task_name="x" * 20_000)
    assert len(wrong(named.text)["task_name"]) < 300


async def test_a_form_can_be_come_back_to(served: Served) -> None:
    """What was typed is kept by the browser, which must be allowed to: also the page that a refused form led to."""
    client = await signed_in(served)
    page = await client.get("/tasks/new")
    refused = await send(client, do="start", source="lines", lines="x", model="")
    assert page.headers["cache-control"] == refused.headers["cache-control"] == "private, no-cache"
    assert set(re.findall(r'<[^>]*autocomplete="off"[^>]*>', page.text)) == set(
        re.findall(r'<input type="hidden" name="key"[^>]*>', page.text)
    )


async def test_models_are_suggested_that_ran_here(served: Served) -> None:
    await submit(served.client, model="hf:nobody/can-fetch-this")
    assert "can-fetch-this" not in await text_of(await signed_in(served), "/tasks/new")


async def test_a_paused_executor_is_not_counted(served: Served) -> None:
    client = await signed_in(served)
    mac = await served.executor()
    await mac.say("heartbeat", state="paused", reason="on battery")
    fields = {"source": "lines", "lines": "one", "model": "hf:a/b"}
    said = words((await send(client, "/tasks/new/preview", **fields)).text)
    assert "No executor can run it now: 1 executor that could is paused." in said


async def test_a_name_that_is_taken_is_told_at_the_name(served: Served) -> None:
    await submit(served.client, task_name="taken")
    client = await signed_in(served)
    answer = await send(client, do="start", source="lines", lines="x", model="hf:a/b", task_name="taken")
    assert "there is a task default/default/taken already" in wrong(answer.text)["task_name"]


async def test_a_token_of_one_team_starts_there_and_nowhere_else(served: Served) -> None:
    client = await signed_in(served, await served.token(scope="submit", teams=["ours"]))
    assert typed(await text_of(client, "/tasks/new"))["team"] == "ours"
    fields = {"do": "start", "source": "lines", "lines": "x", "model": "hf:a/b"}
    assert "reaches only ours" in wrong((await send(client, team="theirs", **fields)).text)["team"]
    task_of(await send(client, team="ours", **fields))
    others = await put(await signed_in(served), ROWS)
    fields |= {"source": "file", "upload": others["upload"], "team": "ours"}
    assert "no upload" in wrong((await send(client, **fields)).text)["file"]


async def test_what_the_preview_says_of_rows_that_would_fail(served: Served) -> None:
    client = await signed_in(served)
    rows = b'{"text": "a"}\n{"text": ""}\n{"text": null}\nnonsense\n{"text": "' + b"x" * 3000 + b'"}\n'
    uploaded = await put(client, rows)
    fields = {"source": "file", "upload": uploaded["upload"], "filename": "rows.jsonl"}
    said = words((await send(client, "/tasks/new/preview", **fields)).text)
    assert "3 of 5 rows would fail" in said
    assert "1 of 5 rows are longer than about 500 tokens" in said
    assert "bad record in line 4: not valid JSON" in said
    assert "Name a model to see an estimate." in said
    wrong_number = fields | {"model": "hf:a/b", "dimensions": "many"}
    said = words((await send(client, "/tasks/new/preview", **wrong_number)).text)
    assert "It is estimated once the fields are right." in said
    unreadable = {"source": "uri", "uri": "file:///nowhere/x.jsonl", "model": "hf:a/b"}
    said = words((await send(client, "/tasks/new/preview", **unreadable)).text)
    assert "It is estimated once the input can be read." in said


async def test_the_estimate_is_of_past_runs_or_says_that_there_are_none(served: Served) -> None:
    client = await signed_in(served)
    uploaded = await put(client, ROWS)
    fields = {"source": "file", "upload": uploaded["upload"], "model": "hf:a/b"}
    assert "No executor is online" in words((await send(client, "/tasks/new/preview", **fields)).text)
    mac = await worker(served)
    said = words((await send(client, "/tasks/new/preview", **fields)).text)
    assert "1 executor can run it. This model has not run here yet: the first rows will tell." in said
    task = task_of(await send(client, do="start", **fields))
    await until(served.client, task, "running")
    await work(mac)
    said = words((await send(client, "/tasks/new/preview", **fields)).text)
    assert re.search(r"on 1 executor, by \d+ parts? of past runs with this model", said)
    assert '<option value="hf:a/b">' in await text_of(await signed_in(served), "/tasks/new")


async def test_uploads_that_are_none_are_refused(served: Served) -> None:
    client = await signed_in(served)
    for content, filename, said in ((b"", "a.jsonl", "empty"), (b"x", "", "choose a file")):
        answer = await client.post(
            "/tasks/uploads", params={"filename": filename}, content=content, headers=FROM_HERE
        )  # fmt: skip
        assert answer.status_code == 422
        assert said in answer.json()["message"]
    assert (await client.post("/tasks/uploads?filename=a", content=b"x")).status_code == 403  # from nowhere
    headers = FROM_HERE | {"Content-Length": "10"}
    cut = await client.post("/tasks/uploads?filename=a.jsonl", content=b"123", headers=headers)
    assert cut.status_code == 422
    assert "3 of 10 bytes" in cut.json()["message"]
    assert [facts async for facts in served.deployment.objects.list("uploads")] == []


async def test_a_name_that_is_a_path_stays_a_name(served: Served) -> None:
    client = await signed_in(served)
    await put(client, ROWS, "../../etc/<passwd>.jsonl")
    keys = [facts.key async for facts in served.deployment.objects.list("uploads")]
    assert [key.rsplit("/", 1)[1] for key in keys] == ["_passwd_.jsonl"]
