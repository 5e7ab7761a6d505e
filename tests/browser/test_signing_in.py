"""Signing in and out."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, errors_beside, expect_live
from tests.system.cluster import ADMIN


def test_a_link_signs_in_once(visitor: Visitor, site: Site) -> None:
    link = site.sign_in_link()
    context, _ = visitor.stranger()
    page = context.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page).to_have_url(f"{site.url}/")
    expect_live(page)
    assert "key=" not in page.evaluate("document.cookie + location.href")

    other, watch = visitor.stranger()
    watch.expect("/sign-in/once", 403)
    second = other.new_page()
    second.goto(link)
    assert "used already" in errors_beside(second)["token"]


def test_a_token_signs_in_and_leads_to_what_was_asked_for(visitor: Visitor, site: Site) -> None:
    context, watch = visitor.stranger()
    page = context.new_page()
    page.goto("/tasks?state=active")
    page.get_by_label("Token").fill("mns_wrong")
    watch.expect("/sign-in", 403)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".field.wrong .error")).to_be_visible()
    assert "token" in errors_beside(page)

    page.get_by_label("Token").fill(ADMIN)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/tasks?state=active")
    (session,) = [each for each in context.cookies() if each.get("httpOnly")]
    assert session.get("sameSite") == "Lax"
    assert ADMIN not in str(session)

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto("/tasks")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
