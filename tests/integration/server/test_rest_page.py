"""docs/rest.md: its commands, run one after the other against a server, print what the page says that they print."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server

_PAGE = Path(__file__).parents[3] / "docs" / "rest.md"
_SECONDS = 150  # every command starts an interpreter


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Each command of the console blocks, with the lines that are shown of what it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in re.sub(r"\n {6}", " ", re.sub(r"\\\n\s*", "", block)).splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def _work(hand: HandExecutor, over: threading.Event) -> None:
    """The page has one subtask; the retry at its end is left waiting."""
    with closing(hand):
        while not over.is_set() and hand.work_off(1, patience_seconds=1) == 0:
            pass


@pytest.mark.timeout(_SECONDS + 60)
def test_every_command_does_what_the_page_says(migrated_url: str, tmp_path: Path) -> None:
    given = [step for step in steps(_PAGE.read_text("utf-8")) if not step[0].startswith("export MINIONS_")]
    assert sum(bool(shown) for _, shown in given) >= 7
    mark = "=== step"
    script = "".join(f"echo '{mark}'\n{command}\n" for command, _ in given)
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        over = threading.Event()
        working = threading.Thread(target=_work, args=(HandExecutor(url), over))
        working.start()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
        try:
            done = subprocess.run(
                ["bash", "-e", "-c", script],
                env=kept | {"MINIONS_SERVER": url, "MINIONS_TOKEN": ADMIN},
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
                timeout=_SECONDS,
            )
        finally:
            over.set()
            working.join()
    said = done.stdout.split(f"{mark}\n")[1:]
    assert done.returncode == 0, f"{given[len(said) - 1][0]}: {done.stderr}"
    for (command, shown), printed in zip(given, said, strict=True):
        for line in shown:
            assert line in printed.splitlines(), f"{command} printed {printed}"
