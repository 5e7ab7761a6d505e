"""Stylesheets and templates know the same classes: none is styled that nothing bears, and none is borne in vain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import minions.server.web

WEB = Path(minions.server.web.__file__).parent
OF_LIBRARIES = {"uplot"}


def texts(folder: str, *patterns: str) -> str:
    return "\n".join(path.read_text() for pattern in patterns for path in sorted((WEB / folder).glob(pattern)))


def styled() -> set[str]:
    """The classes in selectors of our own stylesheets."""
    plain = re.sub(r"(?s)/\*.*?\*/|\{[^{}]*\}", " ", texts("static", "*.css"))
    return set(re.findall(r"\.([a-zA-Z][\w-]*)", plain)) - OF_LIBRARIES


def borne() -> set[str]:
    """The classes that templates give as they are."""
    given = re.findall(r'class="((?:[^"{]|\{\{.*?\}\}|\{%.*?%\})*)"', texts("templates", "**/*.html"))
    return words(re.sub(r"\{\{.*?\}\}|\{%.*?%\}", " ", each) for each in given)


def words(quoted: Iterable[str]) -> set[str]:
    return {word for each in quoted for word in re.findall(r"[\w-]+", each)}


def named() -> set[str]:
    """Words that scripts, views and expressions of templates have in quotes: a class may be among them."""
    sources = texts("static", "*.js") + texts("", "**/*.py") + texts("templates", "**/*.html")
    return words(each for pair in re.findall(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`\n]*)`", sources) for each in pair)


def test_every_style_is_for_something() -> None:
    assert styled() - borne() - named() == set()


def test_every_class_is_for_a_style_or_a_script() -> None:
    scripts = set(re.findall(r"\.([a-zA-Z][\w-]*)", texts("static", "*.js")))
    assert borne() - styled() - scripts == set()
