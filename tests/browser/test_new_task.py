"""Handing in a task: a file, pasted lines, and everything that can be wrong with a form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, as_jsonl, errors_beside, expect_state, texts
from tests.services.models import embedding_model


def task_of(page: Page) -> str:
    """The id of the task whose page is open."""
    page.wait_for_url("**/tasks/tsk_*")
    return page.url.rpartition("/")[2]


def test_a_file_goes_up_is_looked_into_and_runs(visitor: Visitor, site: Site, tmp_path: Path) -> None:
    passages = tmp_path / "passages.jsonl"
    passages.write_bytes(as_jsonl(texts(25, empty=(3,))))
    page, _ = visitor.arrive("/tasks/new")
    page.get_by_label("File", exact=True).set_input_files(passages)
    preview = page.locator("#preview")
    expect(preview).to_contain_text("JSON Lines")
    expect(preview).to_contain_text("row 0 about rivers and mountains")
    expect(page.get_by_label("Text column")).to_have_value("text")
    expect(page.get_by_label("Id column")).to_have_value("id")
    expect(preview.locator("tr").filter(has_text="r0").locator(".tag")).to_have_text("id")  # said there too, at once
    # Its own field is empty again, and does not say that nothing is chosen.
    expect(page.get_by_label("File", exact=True)).to_have_css("color", "rgba(0, 0, 0, 0)")

    page.get_by_label("Model", exact=True).fill(str(embedding_model()))
    expect(preview).to_contain_text(re.compile("2 executors can run it|on 2 executors, by"))
    expect(preview).to_contain_text("1 of 25 rows would fail")
    expect(preview.locator("#same-cli code")).to_contain_text("--id id")
    page.get_by_label("Id column").fill("")  # who wants none is not given one again
    expect(preview.locator("#same-cli code")).not_to_contain_text("--id")
    expect(page.get_by_label("Id column")).to_have_value("")
    page.get_by_role("button", name="Start the task").click()
    task = task_of(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("passages")
    expect_state(page, "Completed")
    assert site.ended(task)["rows"]["failed"] == 1


def test_a_file_that_is_refused_leaves_nothing_of_the_one_before(visitor: Visitor, tmp_path: Path) -> None:
    rows, empty = tmp_path / "rows.jsonl", tmp_path / "empty.jsonl"
    rows.write_bytes(as_jsonl(texts(5)))
    empty.touch()
    page, watch = visitor.arrive("/tasks/new")
    watch.expect("/tasks/uploads", 422)
    field = page.get_by_label("File", exact=True)
    field.set_input_files(rows)
    preview = page.locator("#preview")
    expect(preview).to_contain_text("row 0 about rivers and mountains")
    field.set_input_files(empty)
    expect(page.locator(".drop-words.failed")).to_have_text("empty.jsonl is empty")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(preview).not_to_contain_text("row 0")
    expect(preview).to_contain_text("The first rows show here")
    page.screenshot(path=tmp_path / "refused.png", full_page=True)
    page.get_by_role("button", name="Start the task").click()
    expect(page.locator("#f-file-error")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("Empty.jsonl")
    field.set_input_files(rows)
    expect(page.locator(".drop-words")).to_contain_text("is uploaded")
    expect(preview).to_contain_text("row 0 about rivers and mountains")


def test_pasted_lines_become_prompts(visitor: Visitor, site: Site) -> None:
    """The template is shown filled in with them."""
    page, _ = visitor.arrive("/tasks/new")
    page.get_by_label("Pasted lines").check()
    page.get_by_label("Complete prompts").check()
    page.get_by_label("Lines", exact=True).fill("Where is my order?\n<b>How</b> do I reset it?\n")
    page.get_by_label("Prompt", exact=True).fill("Answer politely: {text}")
    expect(page.locator("#preview .samples li").nth(1)).to_have_text("Answer politely: <b>How</b> do I reset it?")
    page.get_by_label("Model", exact=True).fill("openai:nobody-has-it")
    page.get_by_label("Task", exact=True).fill("pasted")
    page.get_by_role("button", name="Start the task").click()
    task = task_of(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("pasted")
    expect(page.locator("#task-head")).to_contain_text("Nothing runs")
    site.cluster.steer(task, "cancel")
    expect_state(page, "Cancelled")


def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(visitor: Visitor) -> None:
    page, _ = visitor.arrive("/tasks/new")
    page.get_by_role("button", name="Start the task").click()
    expect(page.get_by_role("alert")).to_be_focused()
    assert set(errors_beside(page)) == {"file", "model"}

    typed = {
        "lines": '{"body": "a"}\n{"body": "b"}',
        "model": "nonsense",
        "column": "nothing",
        "team": "Bad Team",
        "project": "p/q",
        "task_name": "UPPER",
        "dimensions": "many",
        "max_failed_share": "7",
        "priority": "5000",
    }
    page.get_by_label("Pasted lines").check()
    for summary in ("More parameters", "Priority and formats"):
        page.get_by_text(summary).click()
    for name, value in typed.items():
        page.locator(f"#f-{name}").fill(value)
    page.get_by_role("button", name="Start the task").click()
    expect(page.locator("#f-team-error")).to_be_visible()
    told = errors_beside(page)
    assert set(told) >= set(typed) - {"lines", "column"}, told
    assert {name: page.locator(f"#f-{name}").input_value() for name in typed} == typed
    expect(page.get_by_label("Pasted lines")).to_be_checked()
    for name in told:
        expect(page.locator(f"#f-{name}")).to_be_visible()
    # The list at the top calls each field by its label, and leads into it.
    alert = page.get_by_role("alert")
    for name in told:
        label = page.locator(f'label[for="f-{name}"]').inner_text()
        alert.get_by_role("link", name=label, exact=True).click()
        expect(page.locator(f"#f-{name}")).to_be_focused()

    # What is being corrected is not called wrong any more, beside its field or at the top.
    page.locator("#f-task_name").fill("lower")
    expect(page.locator("#f-task_name-error")).to_have_count(0)
    expect(page.locator("#f-task_name")).not_to_have_attribute("aria-invalid", "true")
    expect(alert.locator("li.corrected")).to_have_text(re.compile("^Task"))

    # With the rest set right, the server looks into the input.
    right = {"model": str(embedding_model()), "team": "default", "project": "default", "task_name": ""}
    for name, value in (right | {"dimensions": "", "max_failed_share": "", "priority": "100"}).items():
        page.locator(f"#f-{name}").fill(value)
    page.get_by_role("button", name="Start the task").click()
    expect(page.locator("#f-column-error")).to_be_visible()
    assert set(errors_beside(page)) == {"column"}
    assert "body" in errors_beside(page)["column"]


def test_coming_back_to_the_form_finds_what_was_typed(visitor: Visitor) -> None:
    """To one that was never sent, and to one that was refused."""
    page, _ = visitor.arrive("/tasks/new")
    typed = {"lines": "a\nb", "model": "hf:aaa/bbb", "id": "pid", "keep": "x", "team": "Search", "task_name": "gone"}
    page.get_by_label("Pasted lines").check()
    for name, value in typed.items():
        page.locator(f"#f-{name}").fill(value)
    for refused in (False, True):
        if refused:
            page.get_by_role("button", name="Start the task").click()
            expect(page.locator("#f-team-error")).to_be_visible()
        page.get_by_role("link", name="Executors", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Executors")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("New task")
        assert {name: page.locator(f"#f-{name}").input_value() for name in typed} == typed
        expect(page.get_by_label("Pasted lines")).to_be_checked()
        expect(page.locator("#preview")).to_contain_text("2 rows looked at")


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_that_is_long_makes_the_page_wider(visitor: Visitor, tmp_path: Path, width: int) -> None:
    rows = tmp_path / f"{'n' * 180}.jsonl"
    rows.write_bytes(as_jsonl(texts(3)))
    page, _ = visitor.arrive("/tasks/new", viewport={"width": width, "height": 900})
    page.locator("#f-file").set_input_files(rows)
    expect(page.locator("#preview h2").first).to_contain_text("n" * 100)
    for name, most in (("task_name", 63), ("team", 63), ("model", 1000)):
        assert page.locator(f"#f-{name}").get_attribute("maxlength") == str(most)
        page.locator(f"#f-{name}").evaluate("(field, text) => { field.value = text; }", "y" * 20_000)
    page.get_by_label("Id column").fill("z" * 500)
    page.get_by_role("button", name="Start the task").click()
    expect(page.locator("#f-task_name-error")).to_be_visible()
    assert page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth") <= 0
    wide: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main :is(.alert, .card, .error, .drop)")]
          .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className)"""
    )
    assert wide == []


def test_a_name_that_is_taken(visitor: Visitor, waiting: str, site: Site) -> None:
    page, _ = visitor.arrive("/tasks/new")
    page.get_by_label("Pasted lines").check()
    page.get_by_label("Lines", exact=True).fill("one row")
    page.get_by_label("Model", exact=True).fill(str(embedding_model()))
    page.get_by_label("Task", exact=True).fill(site.cluster.view(waiting)["task_name"])
    page.get_by_role("button", name="Start the task").click()
    expect(page.locator("#f-task_name-error")).to_contain_text("waiting")


def test_without_scripts(visitor: Visitor, site: Site) -> None:
    """Sign in, paste, look into it, submit, see the task."""
    context, _ = visitor.stranger(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.sign_in_link())
    page.get_by_role("link", name="Tasks", exact=True).click()
    page.get_by_role("link", name="New task").first.click()
    page.get_by_label("Pasted lines").check()
    page.get_by_label("Lines", exact=True).fill("one\ntwo\nthree")
    page.get_by_label("Model", exact=True).fill(str(embedding_model()))
    page.get_by_label("Task", exact=True).fill("scriptless")
    page.get_by_role("button", name="Look into it").last.click()
    expect(page.locator("#preview")).to_contain_text("3 rows looked at")
    page.get_by_role("button", name="Start the task").click()
    task = task_of(page)
    site.ended(task)
    page.reload()
    expect_state(page, "Completed")
    page.get_by_role("link", name="Results", exact=True).click()
    expect(page.locator("ol.rows li")).to_have_count(3)
    page.get_by_role("link", name="Errors").click()
    expect(page.get_by_text("No row has failed")).to_be_visible()
