"""The verbs of `minions executor`, where no executor runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from minions.commands.executor.speaking import moment_of
from minions.domain.errors import ValidationFailed
from tests.unit.commands.conftest import Minions

NOW = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)


def test_options_of_the_foreground_stand_behind_no_verb(minions: Minions) -> None:
    said = minions("executor", "--threads", "2", "status")
    assert said.code == 2
    assert "write it behind: minions executor status --threads" in said.err
    assert minions("executor", "sing").code == 2


@pytest.mark.parametrize("verb", [["status"], ["pause"], ["finish"], ["resume"], ["open", "-q"], ["stop"]])
def test_nobody_is_there(minions: Minions, tmp_path: Path, verb: list[str]) -> None:
    said = minions("executor", *verb, "--state", str(tmp_path / "none"))
    assert (said.code, said.out) == (4, "")
    assert f"no executor runs here with the state directory {tmp_path / 'none'}" in said.err
    assert "minions executor" in said.err


def test_the_executors_of_a_deployment_are_named(minions: Minions, tmp_path: Path) -> None:
    state = tmp_path / "data" / "executors" / "1"
    state.mkdir(parents=True)
    (state / "control.json").write_text("{}")
    said = minions("executor", "status", XDG_STATE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert (said.code, f"--state {state}" in said.err) == (4, True)


def test_what_was_left_behind_is_nobody(minions: Minions, tmp_path: Path) -> None:
    for content in ("", "{", '{"port": 9}', '{"port": 9, "secret": "s", "pid": 1}'):
        (tmp_path / "control.json").write_text(content)
        assert minions("executor", "status", "--state", str(tmp_path)).code == 4


def test_no_service_is_installed(minions: Minions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    said = minions("executor", "start")
    assert said.code == 4
    assert "no executor is installed as a service" in said.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], None),
        (["1h"], NOW.replace(hour=18)),
        (["until", "18:00"], NOW.replace(hour=18)),
        (["18:00"], NOW.replace(hour=18)),
        (["until", "8:00"], NOW.replace(day=21, hour=8)),
        (["for", "90m"], NOW.replace(hour=18, minute=30)),
    ],
)
def test_until_when(words: list[str], expected: datetime | None) -> None:
    assert moment_of(words, NOW) == expected


@pytest.mark.parametrize("words", [["soon"], ["until"], ["until", "25:00"], ["-1h"]])
def test_no_moment(words: list[str]) -> None:
    with pytest.raises(ValidationFailed):
        moment_of(words, NOW)


def test_the_owners_file_is_shown_checked_and_changed(minions: Minions, tmp_path: Path) -> None:
    file = tmp_path / "owner.toml"
    config = ("executor", "config", "--owner-file", str(file), "--state", str(tmp_path))
    said = minions(*config)
    assert said.code == 0
    assert "There is no" in said.err
    assert "start_after_idle_minutes" in said.out
    said = minions(*config, "set", "mainsonly", "true")
    assert (said.code, file.exists()) == (1, False)
    assert "config edit` shows every key with its meaning" in said.err
    said = minions(*config, "set", "mode", "always")
    assert said.code == 0
    assert "All else in it is the default, and counts as well (mode always)" in said.err
    assert 'mode = "always"' in file.read_text()
    assert minions(*config, "set", "mode", "sometimes").code != 0
    assert 'mode = "always"' in file.read_text()
    assert minions(*config, "set", "mode").code == 2
    assert minions(*config, "path").out == f"{file}\n"
    file.write_text("colour = 1\n")
    said = minions(*config)
    assert said.code == 1
    assert "line 1: colour is no key" in said.err


@pytest.mark.parametrize("editor", ["/nowhere/ed", "false", "unbalanced '"])
def test_an_editor_that_does_not_run_leaves_the_file_as_it_was(minions: Minions, tmp_path: Path, editor: str) -> None:
    file = tmp_path / "owner.toml"
    file.write_text("mains_only = true\n")
    said = minions("executor", "config", "edit", "--owner-file", str(file), "--state", str(tmp_path), EDITOR=editor)
    assert said.code == 1
    assert f"{file} is as it was" in said.err
    assert [each.name for each in tmp_path.glob("*owner.toml*")] == ["owner.toml"]


@pytest.mark.parametrize("change", [["edit"], ["set", "mode", "never"], ["show"]])
def test_a_file_that_is_no_text_is_named(minions: Minions, tmp_path: Path, change: list[str]) -> None:
    file = tmp_path / "owner.toml"
    file.write_bytes(b"\xff\xfe")
    said = minions("executor", "config", *change, "--owner-file", str(file), "--state", str(tmp_path), EDITOR="true")
    assert said.code == 1
    assert f"{file}: cannot be read: is not UTF-8" in said.err
    assert file.read_bytes() == b"\xff\xfe"


def test_a_preference_that_is_none_is_said_without_an_executor(minions: Minions, tmp_path: Path) -> None:
    said = minions("executor", "prefer", "a//b", "--state", str(tmp_path))
    assert (said.code, "TEAM/PROJECT/TASK: 'a//b' is no preference" in said.err) == (2, True)
