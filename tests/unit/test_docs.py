"""What people read is tested against the code: commands exist with their options, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minions.commands.tree import program
from minions.domain.lifecycle import TaskState
from minions.domain.rows import RowCode

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.name != "cli.md"]  # cli.md is generated, and compared in its own test


SHOWN = re.compile(r"^[ ]*\$ (.+)$|`((?:[A-Z_]+=\S+ )*minions [^`]+)`", re.MULTILINE)


def commands(page: Path) -> Iterator[str]:
    """Commands of one page, after a prompt or quoted in a sentence; continued lines joined."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    for after_prompt, quoted in SHOWN.findall(text):
        yield re.sub(r"^(?:[A-Z_]+=\S+ )+", "", " ".join((after_prompt or quoted).split()))


def minions_commands() -> list[str]:
    return sorted({command for page in WRITTEN for command in commands(page) if command.startswith("minions ")})


def refusal(command: str) -> str:
    """Why the command line does not take a command; empty when it does. Values are not looked at: many are examples."""
    words = [word for word in shlex.split(command, comments=True)[1:] if word != "…"]
    if ">" in words:
        words = words[: words.index(">")]
    verb: Any = program()
    context = verb.make_context("minions", [], resilient_parsing=True)
    while hasattr(verb, "get_command"):
        if verb.invoke_without_command and (not words or words[0].startswith("-")):
            break  # a group that does something of its own
        verb = verb.get_command(context, words[0])
        if verb is None:
            return f"there is no verb {words[0]!r}"
        context = verb.make_context(words.pop(0), [], parent=context, resilient_parsing=True)
    context.resilient_parsing = False  # it was, for verbs without their arguments; the parser would let anything pass
    try:
        _, extra, _ = verb.make_parser(context).parse_args(args=words)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"too many words: {extra}" if extra else ""


def test_the_pages_show_commands() -> None:
    assert len(minions_commands()) > 60


@pytest.mark.parametrize("command", minions_commands())
def test_a_command_that_is_shown_exists(command: str) -> None:
    assert refusal(command) == ""


@pytest.mark.parametrize(
    "wrong", ["minions tokens create a --expires 90", "minions wat", "minions tasks wat", "minions open a b"]
)
def test_a_command_that_does_not_exist_would_be_found(wrong: str) -> None:
    assert refusal(wrong)


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
