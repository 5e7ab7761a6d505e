"""The verbs of `minions executor`, where no executor runs."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("verb", [["status"], ["history"], ["pause"], ["finish"], ["resume"], ["open", "-q"], ["stop"]])
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


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pause", "-5m"], 2, "TIME: '-5m' is no moment"),
        (["pause", "--wat"], 2, "No such option: --wat"),
        (["prefer", "a/b", "--until", "8:00", "--for", "3h"], 2, "not both"),
        (["history", "--limit", "-5"], 2, "--limit"),
    ],
)
def test_values_that_are_refused(minions: Minions, arguments: list[str], code: int, said: str) -> None:
    result = minions("executor", *arguments)
    assert result.code == code
    assert said in result.err


def test_a_negative_number_is_a_value(minions: Minions, tmp_path: Path) -> None:
    file = tmp_path / "owner.toml"
    config = ("executor", "config", "--owner-file", str(file), "--state", str(tmp_path))
    said = minions(*config, "set", "model_cache_gb", "-5")
    assert said.code != 0
    assert "model_cache_gb" in said.err
    assert "option" not in said.err


def test_the_owners_file_as_json_has_values_of_json(minions: Minions, tmp_path: Path) -> None:
    file = tmp_path / "owner.toml"
    file.write_text('mains_only = false\nteams = ["search"]\n')
    said = minions("executor", "config", "--owner-file", str(file), "--state", str(tmp_path), "--json")
    keys = json.loads(said.out)["keys"]
    values = [keys[name]["value"] for name in ("mode", "mains_only", "start_after_idle_minutes", "teams")]
    assert values == ["auto", False, 5, ["search"]]


def test_who_takes_a_change_up_is_not_known_for_certain(minions: Minions, tmp_path: Path) -> None:
    """An executor may run with any state directory, so that none is there is not said."""
    file = tmp_path / "owner.toml"
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    said = minions("executor", "config", "set", "highest_thermal", "any", "--owner-file", str(file), **home)
    assert said.code == 0
    assert "No executor runs" not in said.err
    assert "An executor with a state directory of its own (--state) takes it up at once" in said.err


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


def test_what_was_written_and_not_valid_is_gone_on_with(minions: Minions, tmp_path: Path) -> None:
    file, draft = tmp_path / "owner.toml", tmp_path / ".owner.toml.draft"
    file.write_text("mains_only = true\n")
    edit = ("executor", "config", "edit", "--owner-file", str(file), "--state", str(tmp_path))
    (tmp_path / "first.sh").write_text('printf "keep_awake = false\\ncolour = 1\\n" >> "$1"\n')
    said = minions(*edit, EDITOR=f"sh {tmp_path / 'first.sh'}")
    assert (said.code, f"It is in {draft}: delete that" in said.err) == (1, True)
    assert file.read_text() == "mains_only = true\n"

    assert minions(*edit, EDITOR="false").code == 1  # an editor that fails takes nothing away
    said = minions(*edit, EDITOR="sed -i /colour/d")
    assert (said.code, "line 3: colour is no key" in said.err) == (0, True)
    assert file.read_text() == "mains_only = true\nkeep_awake = false\n"
    assert not draft.exists()
    assert "last time" not in minions(*edit, EDITOR="true").err


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
