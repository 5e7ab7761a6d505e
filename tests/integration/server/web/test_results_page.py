"""Results and errors of a task: rows beside what they were made from, page by page, found and linked."""

from __future__ import annotations

import re
from html import unescape

from tests.integration.server.driving import Served, ok, request_for, submit, until, upload
from tests.integration.server.web.browsing import signed_in, text_of, words
from tests.integration.server.web.working import embedded, jsonl, work, worker


async def test_results_show_vectors_beside_their_texts_and_pages_meet(served: Served) -> None:
    texts = [f"text {number:03d}" for number in range(120)]
    task = await embedded(served, *texts, subtask_bytes=900)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/results")
    said = words(page)
    assert "[8.0000, 116.0000]" in said
    assert "2 numbers, norm" in said
    seen: list[str] = []
    starts: list[str] = []
    while True:
        found = re.findall(r'<div class="given"><p dir="auto">(text \d+)</p>', page)
        assert len(found) <= 50
        starts.append(found[0])
        seen += found
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = await text_of(client, unescape(following[1]))
    assert seen == texts
    assert "Rows 100 to 119, counted from 0" in words(page)
    for first in reversed(starts[:-1]):
        earlier = re.search(r'rel="prev" href="([^"]+)"', page)
        assert earlier
        page = await text_of(client, unescape(earlier[1]))
        assert re.findall(r'<div class="given"><p dir="auto">(text \d+)</p>', page)[0] == first
    assert 'rel="prev"' not in page


async def test_a_row_of_a_completed_task_is_found_by_its_number(served: Served) -> None:
    task = await embedded(served, *[f"text {number:03d}" for number in range(60)], subtask_bytes=300)
    client = await signed_in(served)
    for row in (0, 17, 59):
        page = await text_of(client, f"/tasks/{task}/results?row={row}")
        assert re.findall(r'<div class="given"><p dir="auto">(text \d+)</p>', page)[0] == f"text {row:03d}"
    assert "There is no row 60: the results have 60 rows" in words(
        await text_of(client, f"/tasks/{task}/results?row=60")
    )
    for odd in ("-1", "x", "9" * 30):
        assert "text 000" in await text_of(client, f"/tasks/{task}/results?row={odd}")


async def test_replies_stand_beside_their_prompts_and_long_ones_are_a_click_away(served: Served) -> None:
    data = await upload(served.client, jsonl("short", "long " * 600), "prompts.jsonl")
    request = await request_for(served.client, 1, inputs=[data], model="ollama:x", subtask_bytes=10_000)
    request["parameters"] = {"kind": "complete", "prompt": "Say {text}!", "id": "id"}
    task = (await ok(served.client.post("/api/v1/tasks", json=request), 201))["id"]
    await until(served.client, task, "running")
    await work(await worker(served))
    await until(served.client, task, "completed")
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/results")
    said = words(page)
    assert "Say short!" in said
    assert "SAY SHORT!" in said
    assert "3 tokens in, 2 out" in said
    assert len(page) < 60_000
    ways = [unescape(each) for each in re.findall(r'<a href="([^"]+)">All 3,005 characters</a>', page)]
    assert len(ways) == 2  # of the prompt, and of the reply
    whole = await text_of(client, ways[0])
    assert "Say " + "long " * 600 + "!" in whole
    assert "LONG " * 600 in whole
    assert "Say short!" not in whole
    assert "Rows from here on" in words(whole)


async def test_partial_results_of_a_running_task_are_shown_without_numbers_that_could_change(served: Served) -> None:
    data = await upload(served.client, jsonl(*[f"text {number:03d}" for number in range(20)]))
    task = (await submit(served.client, inputs=[data], subtask_bytes=200))["id"]
    await until(served.client, task, "running")
    await work(await worker(served), 2)
    page = await text_of(await signed_in(served), f"/tasks/{task}/results")
    assert "text 000" in page
    assert "counted from 0" not in page
    assert 'name="row"' not in page


async def test_an_input_that_changed_is_said_and_a_part_that_is_gone_too(served: Served) -> None:
    task = await embedded(served, "one", "two", "three")
    client = await signed_in(served)
    objects = served.deployment.objects
    keys = [facts.key async for facts in objects.list("uploads")]
    await objects.write(keys[0], b'{"id": "p0", "text": "another"}\n')
    page = words(await text_of(client, f"/tasks/{task}/results"))
    assert "The input was changed since" in page
    assert "another" not in page
    await objects.delete([facts.key async for facts in objects.list(f"tasks/{task}/parts")])
    assert "Subtask 0:" in words(await text_of(client, f"/tasks/{task}/results"))
    assert (await client.get(f"/tasks/{task}/errors")).status_code == 200


async def test_errors_are_grouped_and_lead_to_a_row(served: Served) -> None:
    texts = ["fine", "", "long", "fine", "", "fine"] * 5
    task = await embedded(served, *texts, subtask_bytes=150)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/errors")
    said = words(page)
    assert "empty text 10" in said
    assert "overflow 5" in said
    assert "600 tokens, the window has 256" in said
    link = re.search(r'<a href="([^"#]+)#(r[\d-]+)">texts.jsonl at byte ([\d,]+)</a><span class="sub muted">600', page)
    assert link
    shown = await text_of(client, unescape(link[1]))
    first = re.search(rf'(?s)<li id="{link[2]}" class="row failed">.*?</li>', shown)
    assert first
    assert "overflow" in first[0]
    assert f"at byte {link[3]}<" in first[0]
    failed = await text_of(client, f"/tasks/{task}/results?only=failed")
    assert failed.count('class="row failed"') == 15
    assert failed.count('class="row"') == 0


async def test_a_place_behind_the_last_row_is_told_as_what_it_is(served: Served) -> None:
    task = await embedded(served, "fine", "")
    client = await signed_in(served)
    said = words(await text_of(client, f"/tasks/{task}/results?at=9999-9-9"))
    assert "No rows from there on The place in the address lies behind the last of 2 rows. First page" in said
    assert "Nothing was committed" not in said
    said = words(await text_of(client, f"/tasks/{task}/results?only=failed&at=9999-9-9"))
    assert "behind the last of 1 failed row." in said
    assert "Every row that was committed worked" not in said


async def test_failed_rows_are_paged(served: Served) -> None:
    task = await embedded(served, *[""] * 130, subtask_bytes=3000)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/results?only=failed")
    seen: list[str] = []
    while True:
        seen += re.findall(r'<li id="(r[\d-]+)" class="row failed">', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = await text_of(client, unescape(following[1]))
    assert len(seen) == len(set(seen)) == 130
