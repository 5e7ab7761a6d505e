"""A deployment that browsers visit: real processes, and tasks in the states that pages show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.services.models import embedding_model
from tests.system.cluster import ADMIN, Cluster

PATIENCE_SECONDS = 180
SUBTASK_BYTES = 1_000  # about twenty rows


def texts(count: int, empty: Sequence[int] = ()) -> list[str]:
    """Short texts; those at the given places are empty, and fail."""
    return ["" if n in empty else f"row {n} about rivers and mountains" for n in range(count)]


def as_jsonl(rows: list[str]) -> bytes:
    """One record a row."""
    return "".join(json.dumps({"id": f"r{n}", "text": text}) + "\n" for n, text in enumerate(rows)).encode()


@dataclass(frozen=True, slots=True)
class Site:
    """The deployment, and what a test asks it without a browser."""

    cluster: Cluster

    @property
    def url(self) -> str:
        return self.cluster.url

    def sign_in_link(self) -> str:
        """A link that signs in once, as `minions open` opens it."""
        made = self.cluster.http.post("/api/v1/sign-in-links", json={}).raise_for_status().json()
        return str(made["path"])

    def sign_in(self, context: BrowserContext, token: str = ADMIN) -> None:
        """Give a browser a session, without the page for it."""
        answer = context.request.post("/sign-in", form={"token": token}, headers={"Origin": self.url}, max_redirects=0)
        assert answer.status == 303, answer.text()

    def submit(self, name: str, rows: list[str], **more: Any) -> str:
        """An embed task. Returns its id."""
        data = as_jsonl(rows)
        upload = self.cluster.http.post("/api/v1/uploads", json={"filename": "rows.jsonl", "size_bytes": len(data)})
        link, number = (upload.raise_for_status().json()[key] for key in ("link", "upload"))
        self.cluster.http.put(link, content=data).raise_for_status()
        body = {
            "task_name": name,
            "model": str(embedding_model()),
            "parameters": {"kind": "embed", "column": "text", "id": "id"},
            "inputs": [number],
            "subtask_bytes": SUBTASK_BYTES,
        }
        answer = self.cluster.http.post("/api/v1/tasks", json=body | more)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def submit_unrunnable(self, name: str, rows: int = 30, **more: Any) -> str:
        """A task that stays open: no executor has its model's engine."""
        parameters = {"kind": "complete", "prompt": "Say this again: {text}"}
        return self.submit(name, texts(rows), model="openai:nobody-has-it", parameters=parameters, **more)

    def ended(self, task: str) -> dict[str, Any]:
        return self.cluster.ended(task, PATIENCE_SECONDS)


def expect_live(page: Page) -> None:
    """The page says that it follows what happens."""
    expect(page.locator("#live")).to_have_text("Live")


def expect_state(page: Page, word: str) -> None:
    """The state in the head of a task's page."""
    expect(page.locator("#task-head .about .state").first).to_have_text(word)


def errors_beside(page: Page) -> dict[str, str]:
    """What the form says beside its fields, by the names of their controls."""
    page.wait_for_load_state("domcontentloaded")
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("main .field.wrong")].map((field) => [
          field.querySelector("[aria-invalid=true]").name, field.querySelector(".error").textContent.trim()]))"""
    )
    return found
