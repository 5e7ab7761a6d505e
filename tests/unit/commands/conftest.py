"""The command line, run against a scripted server."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from minions.commands.tree import exit_code_of
from tests.unit.scripted_server import ScriptedServer, scripted_server


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Minions:
    """The command line with no settings but those that a test gives, run in this process."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Said:
        with self._monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            code = exit_code_of(list(arguments))
        out, err = self._capsys.readouterr()
        return Said(code, out, err)


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def minions(
    tmp_path: Path, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Minions:
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    for name in [name for name in os.environ if name.startswith(("MINIONS_", "COLUMNS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MINIONS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MINIONS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MINIONS_SERVER", script.url)
    monkeypatch.setenv("MINIONS_TOKEN", "secret")
    return Minions(directory, monkeypatch, capsys)
