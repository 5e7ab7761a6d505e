"""Static files, and what a content security policy asks of templates and scripts."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from minions.server.web.headers import DATA_POLICY, PAGE_POLICY
from minions.server.web.static_files import StaticFiles

WEB = Path(str(files("minions.server.web")))
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
VENDORED = sorted(path for path in (WEB / "static" / "vendor").iterdir() if path.is_dir())
SCRIPTS = sorted(path for path in (WEB / "static").rglob("*.js") if "vendor" not in path.parts)


def test_a_file_that_is_not_there_breaks_the_page_and_not_the_browser() -> None:
    with pytest.raises(KeyError):
        StaticFiles().url("nowhere.css")


def test_the_version_is_the_content() -> None:
    first, second = StaticFiles(), StaticFiles()
    assert first.version == second.version
    assert first.url("app.css") == f"/static/{first.version}/app.css"


@pytest.mark.parametrize("page", TEMPLATES, ids=lambda page: page.name)
def test_templates_hold_nothing_inline(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=", text)
    assert not re.search(r"<style", text)
    assert not re.search(r"\son[a-z]+=", text)
    assert not re.search(r"hx-on|\bjs:|javascript:", text)
    for script in re.findall(r"<script[^>]*>", text):
        assert "src=" in script
    assert "| safe" not in re.sub(r"'[^']*'\)? \| safe", "", text), "only what is written in the template is safe"


@pytest.mark.parametrize("page", TEMPLATES, ids=lambda page: page.name)
def test_pages_fetch_from_nowhere_else(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(?:src|href|action|data-src)=\"(?:https?:)?//", text)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_need_no_eval(script: Path) -> None:
    assert not re.search(r"\beval\(|new Function|innerHTML\s*=|insertAdjacentHTML", script.read_text(encoding="utf-8"))


@pytest.mark.parametrize("library", VENDORED, ids=lambda library: library.name)
def test_a_vendored_library_says_what_it_is_and_was_not_touched(library: Path) -> None:
    assert (library / "LICENSE").stat().st_size > 100
    version = (library / "VERSION").read_text(encoding="utf-8")
    assert re.search(r"\d+\.\d+\.\d+", version)
    script = next(path for path in library.iterdir() if path.suffix == ".js")
    assert hashlib.sha256(script.read_bytes()).hexdigest() in version


def test_policies_allow_nothing_inline() -> None:
    for policy in (PAGE_POLICY, DATA_POLICY):
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
