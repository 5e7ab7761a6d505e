"""What people read is tested against the code: commands exist with their options, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minions.commands.main import program
from minions.domain.lifecycle import TaskState
from minions.domain.rows import RowCode

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.name != "cli.md"]  # cli.md is generated, and compared in its own test


def commands(page: Path) -> Iterator[str]:
    """Commands of console blocks, continued lines joined, comments dropped."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")


def minions_commands() -> list[str]:
    return sorted({command for page in WRITTEN for command in commands(page) if command.startswith("minions ")})


def test_the_pages_show_commands() -> None:
    assert len(minions_commands()) > 10


@pytest.mark.parametrize("command", minions_commands())
def test_a_command_that_is_shown_exists(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    verb: Any = program()
    context = verb.make_context("minions", [], resilient_parsing=True)
    while hasattr(verb, "get_command"):
        if verb.invoke_without_command and (not words or words[0].startswith("-")):
            break  # a group that does something of its own
        name = words.pop(0)
        verb = verb.get_command(context, name)
        assert verb is not None, f"there is no verb {name!r}"
        context = verb.make_context(name, [], parent=context, resilient_parsing=True)
    verb.make_parser(context).parse_args(args=words)  # raises for an option that does not exist


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_make_targets_that_are_shown_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make (\w+)`", page.read_text(encoding="utf-8"))):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_state_and_every_code_is_explained() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    for word in [*TaskState, *RowCode]:
        assert f"`{word}`" in text, word
