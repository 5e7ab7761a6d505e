"""Results page by page, failed rows by code, running them again, and the results as a file."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import FloatRect, expect

from minions.formats.part import read_part
from tests.browser.conftest import FAILED_ROWS, ROWS, Visitor
from tests.browser.site import Site, expect_state


def test_paging_through_results(visitor: Visitor, finished: str) -> None:
    """50 a page, in input order, each row once; and back."""
    page, _ = visitor.arrive(f"/tasks/{finished}")
    page.get_by_role("link", name="Results", exact=True).click()
    seen: list[str] = []
    for count in (50, 50, 20):
        expect(page.locator("ol.rows li")).to_have_count(count)
        seen += page.locator("ol.rows .which a").all_inner_texts()
        if count == 50:
            page.get_by_role("link", name="Next page").click()
            page.wait_for_url("**/results?at=*")
            expect(page.locator("ol.rows .which a").first).not_to_have_text(seen[-50])
    assert seen == [str(n) for n in range(ROWS)]
    expect(page.locator("ol.rows li").last).to_contain_text("384 numbers, norm 1.0000")
    expect(page.locator("ol.rows li").last).to_contain_text("row 119 about rivers and mountains")

    page.get_by_role("link", name="Previous").click()
    expect(page.locator("ol.rows .which a").first).to_have_text("50")
    page.get_by_label("Row", exact=True).fill("61")
    page.get_by_role("button", name="Go").click()
    expect(page.locator("ol.rows .which a").first).to_have_text("61")
    expect(page.locator("ol.rows li").first).to_contain_text("empty text")


def test_a_long_text_takes_a_few_lines_until_it_is_asked_for(visitor: Visitor, site: Site) -> None:
    """One key opens and closes it; what stands above it stays where it is."""
    task = site.submit("long", ["short", "\n".join(f"line {n} of a poem" for n in range(200))])
    site.ended(task)
    page, _ = visitor.arrive(f"/tasks/{task}/results")
    row = page.locator("ol.rows li").nth(1)
    text = row.locator(".given p")

    def box() -> FloatRect:
        found = text.bounding_box()
        assert found is not None
        return found

    before = box()
    assert before["height"] <= 8 * 20
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(row.locator("summary")).to_have_text("Show less", use_inner_text=True)
    opened = box()
    assert opened["height"] > 20 * 20
    assert (opened["x"], opened["y"]) == (before["x"], before["y"])
    page.keyboard.press("Enter")
    expect(row.locator("summary")).to_have_text("Show more", use_inner_text=True)
    assert box() == before
    row.get_by_role("link", name="All 3,689 characters").click()
    expect(page.locator(".given p")).to_contain_text("line 199 of a poem")
    page.get_by_role("link", name="Rows from here on").click()
    expect(page.locator("ol.rows li")).to_have_count(1)


def test_errors_by_code_and_a_retry(visitor: Visitor, finished: str, site: Site) -> None:
    """Rows that worked stay as they are; empty texts fail again."""
    page, _ = visitor.arrive(f"/tasks/{finished}/errors")
    row = page.get_by_role("row").filter(has_text="empty text")
    expect(row.get_by_role("cell").nth(1)).to_have_text(str(len(FAILED_ROWS)))
    row.get_by_role("link").first.click()
    expect(page.locator("ol.rows li").first).to_contain_text("empty text")
    expect(page.locator("ol.rows .which a").first).to_have_text(str(FAILED_ROWS[0]))

    page.get_by_role("navigation", name="Rows").get_by_role("link", name="Failed").click()
    expect(page.locator("ol.rows li")).to_have_count(len(FAILED_ROWS))

    before = site.cluster.view(finished)["retries"]
    page.get_by_role("link", name="Retry 2 failed rows").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 2 failed rows?")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast")).to_contain_text("Retrying 2 failed rows")
    expect_state(page, "Completed")
    expect(page.locator("#task-head")).to_contain_text("Retry 2 failed rows")
    view = site.ended(finished)
    assert (view["retries"], view["rows"]["ok"]) == (before + 1, ROWS - len(FAILED_ROWS))


def test_the_download(visitor: Visitor, finished: str, tmp_path: Path) -> None:
    page, watch = visitor.arrive(f"/tasks/{finished}")
    watch.expect_download()
    page.locator("#download-menu summary").click()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Parquet").click()
    assert begun.value.suggested_filename == "finished.parquet"
    begun.value.save_as(tmp_path / "out.parquet")
    rows = read_part((tmp_path / "out.parquet").read_bytes(), "parquet").to_pylist()
    assert [row["id"] for row in rows] == [f"r{n}" for n in range(ROWS)]
    page.keyboard.press("Escape")
    expect(page.locator("#download-menu[open]")).to_have_count(0)
