"""Every page: nothing that axe-core finds, light and dark; no sideways scroll on a phone; still where that is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, errors_beside

TASK_TABS = ("", "/subtasks", "/results", "/errors", "/configuration", "/activity")
PAGES = [
    "/",
    "/tasks",
    "/tasks?q=nobody-has-this-name",
    "/tasks/new",
    "/tasks/change?verb=pause&team=default",
    *(f"/tasks/{{finished}}{tab}" for tab in TASK_TABS),
    "/tasks/{finished}/results?only=failed",
    "/tasks/{finished}/retry",
    "/tasks/{waiting}",
    "/tasks/{waiting}/cancel",
    "/executors",
    "/executors?q=nobody-has-this-name",
    "/executors/{executor}",
    "/settings",
    "/not-here",
]
_TOO_WIDE = """() => [document.scrollingElement.scrollWidth, [...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth)
    .map((each) => `${each.tagName}.${each.getAttribute('class')}`).slice(0, 12)]"""


def violations(page: Page) -> list[str]:
    """What axe-core finds, in a line each."""
    found = cast("dict[str, Any]", cast("Any", Axe()).run(page).response)
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


def examine(page: Page) -> list[str]:
    """In light, in dark, and as wide as a phone."""
    expect(page.locator("html.scripted")).to_be_attached()
    found: list[str] = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found += [f"{scheme}: {each}" for each in violations(page)]
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("innerWidth === 390")
    width, wide = page.evaluate(_TOO_WIDE)
    return [*found, *([f"{width} px wide at 390 px: {wide}"] if width > 390 else [])]


@pytest.mark.parametrize("address", PAGES)
def test_a_page(visitor: Visitor, site: Site, finished: str, waiting: str, address: str) -> None:
    (executor,) = [each for each in site.cluster.get("/api/v1/executors")["data"] if each["name"] == "e0"]
    path = address.format(finished=finished, waiting=waiting, executor=executor["id"])
    page, watch = visitor.arrive("/sign-in")
    if path == "/not-here":
        watch.expect(path, 404)
    page.goto(path)
    assert examine(page) == []


def test_the_way_in(visitor: Visitor) -> None:
    context, _ = visitor.stranger()
    page = context.new_page()
    page.goto("/sign-in")
    assert examine(page) == []


def test_a_form_with_errors(visitor: Visitor) -> None:
    page, _ = visitor.arrive("/tasks/new")
    page.get_by_role("button", name="Start the task").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert set(errors_beside(page)) == {"file", "model"}
    assert examine(page) == []


_LABELS_OF_THREE_MINUTES = """async () => {
  const said = [], fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    said.push(text); return fill.call(this, text, ...more);
  };
  const figure = document.querySelector("[data-chart]").cloneNode(true);
  const row = (x) => `<tr data-x="${x}" data-y="5"></tr>`;
  figure.querySelector("tbody").innerHTML = [0, 60, 120].map((past) => row(1790000040 + past)).join("");
  document.querySelector("main").replaceChildren(figure);
  const app = document.querySelector('script[src$="/app.js"]').src;
  (await import(app.replace("app.js", "charts.js"))).draw(figure);
  await new Promise(requestAnimationFrame);
  return said.filter((each) => each.includes(":"));
}"""


def test_a_chart_of_three_minutes_says_no_time_twice(visitor: Visitor, finished: str) -> None:
    page, _ = visitor.arrive("/")
    page.locator("[data-chart] .plot canvas").first.wait_for()
    labels = page.evaluate(_LABELS_OF_THREE_MINUTES)
    assert len(labels) == len(set(labels)) == 3


def test_a_chart_that_is_still_as_wide_as_before_widens_no_page(visitor: Visitor, finished: str) -> None:
    """A window that is made narrow is narrow before the chart is drawn anew."""
    page, _ = visitor.arrive("/", viewport={"width": 390, "height": 844})
    plot = page.locator("[data-chart] .plot").first
    plot.evaluate("plot => { plot.appendChild(new Image(900, 20)); }")
    assert page.evaluate("document.scrollingElement.scrollWidth") == 390


def test_on_a_phone_the_tab_that_is_open_is_seen(visitor: Visitor, finished: str) -> None:
    page, _ = visitor.arrive(f"/tasks/{finished}/configuration", viewport={"width": 390, "height": 844})
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=0.9)


def test_the_list_of_keys(visitor: Visitor) -> None:
    page, _ = visitor.arrive("/executors")
    expect(page.locator("html.scripted")).to_be_attached()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert examine(page) == []


def test_nothing_moves_where_that_is_asked(visitor: Visitor) -> None:
    """And something does where it is not, so that this would be seen."""
    moving = """() => [...document.querySelectorAll("*")].filter((element) => {
      const style = getComputedStyle(element);
      const durations = style.transitionDuration.split(", ");
      return style.animationName !== "none" || durations.some((each) => parseFloat(each) > 0);
    }).length"""
    page, _ = visitor.arrive("/", reduced_motion="no-preference")
    assert page.evaluate(moving) > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == 0


def test_what_is_shown_beside_the_page_keeps_its_place(visitor: Visitor) -> None:
    """How old the data is stays in the sidebar, and what lies behind a dialog is dark to the edge of the window."""
    page, _ = visitor.arrive("/settings")
    inside = page.evaluate(
        """() => {
          const chip = document.getElementById("live");
          chip.dataset.state = "reconnecting";
          chip.querySelector(".word").textContent = "Reconnecting";
          chip.querySelector(".age").textContent = "· last update 12 min ago";
          const right = (each) => each.getBoundingClientRect().right;
          return [...chip.children].every((each) => right(each) <= right(document.querySelector(".side")) - 10);
        }"""
    )
    assert inside
    before = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != before
