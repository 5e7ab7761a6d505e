"""minions open: an address that signs a browser in, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from minions.commands.tree import exit_code_of
from tests.integration.cli_deployment import ADMIN, running_server
from tests.services.migrated import migrated_url

__all__ = ["migrated_url"]


@pytest.fixture
def server(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MINIONS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MINIONS_TOKEN", ADMIN)
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        monkeypatch.setenv("MINIONS_SERVER", url)
        yield url


def test_open_prints_an_address_that_signs_in_once(
    server: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    assert exit_code_of(["open"]) == 0
    address = capsys.readouterr().out.strip()
    assert shown == [address]
    assert address.startswith(f"{server}/sign-in/once?key=")
    with httpx.Client(timeout=60) as browser:
        assert browser.get(address).headers["location"] == "/"
        assert browser.get(f"{server}/").status_code == 200
    assert httpx.get(address, timeout=60).status_code == 403
    assert exit_code_of(["open", "--quiet"]) == 0
    assert len(shown) == 1


def test_a_task_that_is_not_there_opens_nothing(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["open", "--quiet", "nothing"]) == 4
    assert capsys.readouterr().out == ""
