"""What the web interface offers to copy makes the same task as it stands: command line, Python, and curl."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server

FILE = 'tick"ets & [1].csv'
ROWS = "pid,text\n" + "".join(f"p{n},it's row {n}\n" for n in range(5))
LINES = "it's the first $(false)\nEND\nשלום \\n `false` \"\n"
NASTY = "Say \"$(rm -rf ~)\" 'to' {text}\nthen `stop`; é"


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "objects").mkdir()
    with running_server(database_url, str(tmp_path / "objects")) as url:
        yield url


@pytest.fixture
def copier(server: str, tmp_path: Path) -> Iterator[Copier]:
    copier = Copier(server, tmp_path)
    yield copier
    copier.close()


class Copier:
    """Somebody in a browser, and a shell beside it."""

    def __init__(self, server: str, home: Path) -> None:
        self._home = home
        self.page = httpx.Client(base_url=server, headers={"Origin": server, "Accept": "text/html"}, timeout=60)
        assert self.page.post("/sign-in", data={"token": ADMIN}).status_code == 303
        self.api = httpx.Client(base_url=server, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60)
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "MINIONS_DATA": str(home / "data"),
            "MINIONS_CONFIG": str(home / "config.toml"),
            "MINIONS_SERVER": server,
            "MINIONS_TOKEN": ADMIN,
            "PYTHONUTF8": "1",
            "LC_ALL": "C.UTF-8",
        }

    def close(self) -> None:
        self.page.close()
        self.api.close()

    def texts(self, answer: httpx.Response) -> tuple[str, str, str]:
        """What the buttons of a page copy."""
        command, python, curl = (unescape(each) for each in re.findall(r'data-copy="([^"]*)"', answer.text))
        return command, python, curl

    def preview(self, **fields: str) -> tuple[str, str, str]:
        return self.texts(self.page.post("/tasks/new/preview", data=fields, files={"file": ("", b"")}))

    def run(self, program: list[str], text: str, with_file: bool) -> None:
        """In a folder that holds nothing else than what its owner has."""
        folder = self._home / f"copied{len(list(self._home.iterdir()))}"
        folder.mkdir()
        if with_file:
            (folder / FILE).write_text(ROWS)
        done = subprocess.run(
            [*program, text],
            cwd=folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"

    def run_all(self, texts: tuple[str, str, str], *, with_file: bool, subtasks: int = 3) -> list[dict[str, Any]]:
        """The three tasks that came of them, done. subtasks: of them, and of what waits beside them."""
        executor = HandExecutor(str(self.page.base_url))
        working = Thread(target=executor.work_off, args=(subtasks,))
        working.start()
        try:
            command, python, curl = texts
            self.run(["sh", "-c"], command, with_file)
            self.run(["sh", "-c"], curl, with_file)
            self.run([sys.executable, "-c"], python, with_file)  # waits for it, and writes its results
        finally:
            working.join()
            executor.close()
        return self.api.get("/api/v1/tasks", params={"limit": 3}).json()["data"]

    def start(self, **fields: str) -> str:
        """A task from the form; its id."""
        answer = self.page.post("/tasks/new", data={**fields, "do": "start"}, files={"file": ("", b"")})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"].rpartition("/")[2]


@pytest.mark.parametrize("source", ["file", "lines"])
def test_what_is_copied_makes_the_same_task(copier: Copier, source: str) -> None:
    fields = {"source": source, "model": "hf:a/b", "priority": "7", "embed_prompt": "it's: "}
    if source == "file":
        uploaded = copier.page.post("/tasks/uploads", params={"filename": FILE}, content=ROWS.encode()).json()
        fields |= {"upload": uploaded["upload"], "filename": uploaded["filename"]}
    else:
        fields |= {"lines": LINES}
    rows = 5 if source == "file" else 3
    made = copier.run_all(copier.preview(**fields), with_file=source == "file")
    task = copier.start(**fields)
    wanted = copier.api.get(f"/api/v1/tasks/{task}").json()
    assert wanted["parameters"]["id"] == ("pid" if source == "file" else None)
    for each in made:
        assert each["rows"]["ok"] == rows
        assert each["parameters"] == wanted["parameters"]
        assert each["priority"] == 7

    # And once more from the page of that task, by whoever has no file any more.
    page = copier.page.get(f"/tasks/{task}/configuration")
    again = copier.run_all(copier.texts(page), with_file=False, subtasks=4)
    for each in again:
        assert each["id"] not in [task, *(one["id"] for one in made)]
        assert each["parameters"] == wanted["parameters"]


def test_every_parameter_survives_the_shell(copier: Copier) -> None:
    """Those of completions, which nobody here can do."""
    fields = {
        "source": "lines", "lines": json.dumps({"text": "a", "a,b": 1, "c": 2}), "kind": "complete",
        "model": "ollama:llama3.2", "prompt": NASTY, "system": "@home", "max_tokens": "9", "keep": "c",
        "stop": "END\n@x", "seed": "3", "top_p": "0.5", "think": "low", "raw": "yes", "output_format": "jsonl",
        "output_schema": '{"type": "object"}', "max_failed_share": "0.5", "task_name": "", "team": "search",
        "complete_overflow": "truncate",
    }  # fmt: skip
    command, python, curl = copier.preview(**fields)
    task = copier.start(**fields)
    copier.run(["sh", "-c"], command, False)
    copier.run(["sh", "-c"], curl, False)
    copier.run([sys.executable, "-c"], python.partition("task.wait()")[0], False)
    made = copier.api.get("/api/v1/tasks", params={"limit": 4}).json()["data"]
    wanted = made.pop()
    assert wanted["id"] == task
    assert wanted["parameters"]["stop"] == ["END", "@x"]
    for each in made:
        for name in ("parameters", "team", "project", "output_format", "model"):
            assert each[name] == wanted[name], name


def test_nothing_is_offered_that_would_be_refused(copier: Copier) -> None:
    right = {"source": "lines", "lines": "a\nb", "model": "hf:a/b"}
    assert len(copier.preview(**right)) == 3
    for wrong in ({"model": ""}, {"column": "nope"}, {"id": "nope"}, {"team": "Bad Team"}, {"lines": "x" * 5000}):
        answer = copier.page.post("/tasks/new/preview", data={**right, **wrong}, files={"file": ("", b"")})
        assert "data-copy" not in answer.text, wrong
