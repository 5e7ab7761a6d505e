"""Settings: tokens, the theme, and the time zone."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Dialog, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, errors_beside


def test_a_token_is_shown_once_works_and_is_revoked(visitor: Visitor, site: Site) -> None:
    page, watch = visitor.arrive("/settings")
    watch.expect("/settings/tokens", 422)
    page.get_by_label("Name").fill("laptop-of-ada")
    page.get_by_label("Scope").select_option("submit")
    page.get_by_label("Teams").fill("Bad Team")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator("#teams-error")).to_be_visible()
    assert set(errors_beside(page)) == {"teams"}
    expect(page.get_by_label("Name")).to_have_value("laptop-of-ada")

    page.get_by_label("Teams").fill("search")
    page.get_by_role("button", name="Make the token").click()
    secret = page.get_by_role("status").locator("code").inner_text()
    assert secret.startswith("mns_")
    headers = {"Authorization": f"Bearer {secret}"}

    def status() -> int:
        return httpx.get(f"{site.url}/api/v1/tasks", headers=headers, timeout=60).status_code

    assert status() == 200

    page.reload()  # which makes no second one
    assert secret not in page.content()
    row = page.get_by_role("row").filter(has_text="laptop-of-ada")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("search")
    page.on("dialog", lambda dialog: dialog.accept())
    row.get_by_role("button", name="Revoke").click()
    expect(page.locator(".toast")).to_contain_text("The token is revoked")
    expect(page.get_by_role("row").filter(has_text="laptop-of-ada")).to_have_count(0)
    site.cluster.until(lambda: status() == 401, 60)


@pytest.mark.parametrize("width", [1280, 1000, 390])
def test_every_choice_is_read_whole(visitor: Visitor, width: int) -> None:
    page, _ = visitor.arrive("/settings", viewport={"width": width, "height": 900})
    cut: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("select")].flatMap((select) => {
          const style = getComputedStyle(select), pen = document.createElement("canvas").getContext("2d");
          pen.font = style.font;
          const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
          return [...select.options].filter((option) => pen.measureText(option.text).width > room)
            .map((option) => option.text);
        })"""
    )
    assert cut == []


def test_a_token_can_be_revoked_on_a_phone(visitor: Visitor) -> None:
    page, _ = visitor.arrive("/settings", viewport={"width": 390, "height": 844})
    button = page.get_by_role("button", name="Revoke").first.bounding_box()
    assert button is not None
    assert button["x"] + button["width"] <= 390 - 16
    expect(page.locator("#tokens tbody tr").first).to_contain_text("all teams, last used", use_inner_text=True)


def test_revoking_is_asked_first(visitor: Visitor) -> None:
    page, _ = visitor.arrive("/settings")
    asked: list[str] = []

    def decline(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", decline)
    rows = page.locator("#tokens tbody tr").count()
    page.get_by_role("button", name="Revoke").first.click()
    assert len(asked) == 1
    assert asked[0].startswith("Revoke the token")
    page.reload()
    expect(page.locator("#tokens tbody tr")).to_have_count(rows)


def test_theme_and_time_zone(visitor: Visitor, finished: str) -> None:
    page, _ = visitor.arrive("/settings", color_scheme="light", timezone_id="Europe/Berlin")
    root = page.locator("html")
    expect(root).to_have_css("background-color", "rgb(251, 251, 250)")
    page.get_by_label("Theme").select_option("dark")
    page.get_by_label("Time zone").select_option("Asia/Kolkata")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html[data-theme=dark]")).to_be_attached()
    expect(root).to_have_css("background-color", "rgb(19, 20, 23)")
    expect(page.get_by_label("Time zone")).to_have_value("Asia/Kolkata")
    page.goto(f"/tasks/{finished}")
    expect(page.locator("#task-head time").first).to_have_attribute("title", re.compile(r"\+05:30|IST|Asia/Kolkata"))
    page.goto("/settings")
    page.get_by_label("Theme").select_option("auto")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html[data-theme=auto]")).to_be_attached()
    expect(root).to_have_css("background-color", "rgb(251, 251, 250)")
