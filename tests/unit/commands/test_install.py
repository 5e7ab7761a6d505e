"""Installing and removing the executor's service, against programs in place of launchctl and systemctl."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from minions.commands.executor import install
from minions.executor.identity import own_state
from minions.executor.service import start_command
from minions.executor.service_files import LABEL, UNIT, flags_of, program_of
from tests.unit.commands.conftest import Minions
from tests.unit.executor.stand_ins import StandIns

SERVER = "https://minions.example.org"


class Machine:
    """A home of its own, and `minions executor …` in it. No executor comes up, as nothing really starts one."""

    def __init__(self, home: Path, minions: Minions, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.minions = home, minions
        self.state, self.cache, self.owner_file = home / "state", home / "cache", home / "owner.toml"
        self.unit = home / ".config" / "systemd" / "user" / UNIT
        self.agent = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        places = {"MINIONS_STATE": self.state, "MINIONS_CACHE": self.cache, "MINIONS_OWNER_FILE": self.owner_file}
        for name, value in {"HOME": home, **places}.items():
            monkeypatch.setenv(name, str(value))
        for name in ("XDG_CONFIG_HOME", "MINIONS_SERVER", "MINIONS_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(install, "_START_SECONDS", 0.0)

    def install(self, *flags: str, token: str = "mns_secret") -> str:
        """With the token on standard input; what was said."""
        said = self.minions("executor", "install", "--token-stdin", *flags, stdin=f"{token}\n")
        assert (said.code, said.out) == (1, ""), said
        assert "it is installed, and does not answer" in said.err
        assert token not in said.err
        return said.err

    def uninstall(self, *flags: str) -> tuple[int, str]:
        said = self.minions("executor", "uninstall", *flags)
        assert said.out == ""
        return said.code, said.err


@pytest.fixture(autouse=True)
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    return StandIns(tmp_path / "stand-ins", monkeypatch)


@pytest.fixture
def machine(tmp_path: Path, minions: Minions, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("sys.platform", "linux")
    return Machine(tmp_path / "home", minions, monkeypatch)


def test_linux_gets_a_unit_a_token_file_and_an_owners_file(machine: Machine, stand_ins: StandIns) -> None:
    said = machine.install("--server", SERVER, "--name", "mac", "--kind", "embed", "--memory-mb", "4096")
    assert stand_ins.calls() == ["--user daemon-reload", f"--user enable --now {UNIT}"]
    unit = machine.unit.read_text()
    token_file = machine.state / "token"
    assert "mns_secret" not in unit
    assert token_file.read_text() == "mns_secret\n"
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    flags = dict(flags_of(unit))
    assert flags == {
        "--server": SERVER, "--token-file": str(token_file), "--name": "mac", "--kind": "embed", "--memory-mb": "4096",
        "--owner-file": str(machine.owner_file), "--state": str(machine.state), "--cache": str(machine.cache),
    }  # fmt: skip
    assert Path(program_of(unit)).exists()
    assert "mode" in machine.owner_file.read_text()
    for told in (str(machine.owner_file), "made now", str(token_file), "loginctl enable-linger"):
        assert told in said


def test_once_more_it_changes_what_is_given_and_leaves_the_rest(machine: Machine, stand_ins: StandIns) -> None:
    machine.install("--server", SERVER, "--name", "mac", "--owner", "anna", "--kind", "embed", "--kind", "complete")
    machine.owner_file.write_text('mode = "never"\n')
    before = flags_of(machine.unit.read_text())
    stand_ins.calls()
    said = machine.minions("executor", "install", "--owner", "ben")
    assert "Updated" in said.err
    assert "made now" not in said.err
    assert f"--user restart {UNIT}" in stand_ins.calls()
    after = flags_of(machine.unit.read_text())
    assert after == tuple((flag, "ben" if flag == "--owner" else value) for flag, value in before)
    assert (machine.state / "token").read_text() == "mns_secret\n"
    assert machine.owner_file.read_text() == 'mode = "never"\n'
    machine.install("--server", SERVER, token="mns_other")
    assert (machine.state / "token").read_text() == "mns_other\n"
    assert stat.S_IMODE((machine.state / "token").stat().st_mode) == 0o600
    said = machine.minions("executor", "install", "--server", "https://elsewhere.example.org")
    assert (said.code, "an executor needs a token for https://elsewhere" in said.err) == (2, True)


def test_a_mac_gets_an_agent(machine: Machine, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    said = machine.install("--server", SERVER)
    assert any(call.startswith("bootstrap gui/") for call in stand_ins.calls())
    assert "linger" not in said
    assert dict(flags_of(machine.agent.read_text()))["--server"] == SERVER
    started = start_command("darwin")
    assert started is not None
    assert started[-1].startswith("gui/")
    code, said = machine.uninstall()
    assert (code, machine.agent.exists()) == (0, False)
    assert any(call.startswith("bootout gui/") for call in stand_ins.calls())


def test_a_refusal_names_what_the_manager_said(machine: Machine, stand_ins: StandIns) -> None:
    stand_ins.set(REFUSAL="Failed to connect to bus: No medium found")
    said = machine.minions("executor", "install", "--server", SERVER, "--token-stdin", stdin="mns_secret\n")
    assert said.code == 1
    assert "Failed to connect to bus: No medium found" in said.err
    for left in (machine.unit, machine.state / "token", machine.owner_file):
        assert not left.exists(), "an executor that is started by hand would heed it"


@pytest.mark.parametrize(
    ("flags", "stdin", "said"),
    [
        (["--server", SERVER], "", "an executor needs a token"),
        (["--server", SERVER, "--token-stdin"], "", "standard input holds no line"),
        (["--server", SERVER, "--token-stdin", "--name", "A B"], "t\n", "--name: 'A B'"),
        (["--server", SERVER, "--token-stdin", "--kind", "train"], "t\n", "--kind: 'train'"),
        (["--server", SERVER, "--token-stdin", "--owner", "a\nExecStart=b"], "t\n", "--owner: 'a\\nExecStart=b'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    machine: Machine, stand_ins: StandIns, flags: list[str], stdin: str, said: str
) -> None:
    result = machine.minions("executor", "install", *flags, stdin=stdin)
    assert result.code == 2
    assert said in result.err
    assert not machine.unit.exists()
    assert not (machine.state / "token").exists()
    assert stand_ins.calls() == []


def test_removing_keeps_what_was_made_and_deletes_the_token(machine: Machine, stand_ins: StandIns) -> None:
    machine.install("--server", SERVER)
    (machine.state / "history.jsonl").write_text(json.dumps({}))
    (machine.cache / "hf" / "models--a--b").mkdir(parents=True)
    (machine.cache / "hf" / "models--a--b" / "weights").write_bytes(b"x" * 2_000_000)
    stand_ins.calls()
    code, said = machine.uninstall()
    assert code == 0
    assert stand_ins.calls() == [f"--user disable --now {UNIT}", "--user daemon-reload"]
    assert f"Kept models: {machine.cache} (2.0 MB)" in said
    assert f"Kept identity, history and logs: {machine.state}" in said
    assert f"Kept the owner's file: {machine.owner_file}" in said
    assert not machine.unit.exists()
    assert not (machine.state / "token").exists()
    assert (machine.state / "history.jsonl").exists()
    assert machine.owner_file.exists()
    code, said = machine.uninstall()
    assert (code, "no executor is installed here" in said) == (4, True)


def test_purging_deletes_what_an_executor_made_and_nothing_else(machine: Machine) -> None:
    machine.install("--server", SERVER)
    (machine.state / "executor.log").write_text("log")
    (machine.state / "diary.txt").write_text("mine")
    (machine.cache / "hf" / "models--a--b").mkdir(parents=True)
    code, said = machine.uninstall("--purge")
    assert (code, "--yes" in said, f"Deletes models: {machine.cache}" in said) == (2, True, True)
    assert machine.unit.exists(), "nothing is done before it was asked"
    with own_state(machine.state):
        code, said = machine.uninstall("--purge", "--yes")
        assert (code, "another executor runs" in said) == (1, True)
    assert machine.owner_file.exists()
    code, said = machine.uninstall("--purge", "--yes")
    assert code == 0
    assert [path.name for path in machine.state.iterdir()] == ["diary.txt"]
    assert not machine.cache.exists()
    assert not machine.owner_file.exists()


def test_the_verbs_speak_to_the_executor_that_is_installed(
    machine: Machine, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, owner_file = machine.state / "elsewhere", machine.state / "mine.toml"
    machine.install("--server", SERVER, "--state", str(elsewhere), "--owner-file", str(owner_file))
    for name in ("MINIONS_STATE", "MINIONS_OWNER_FILE"):
        monkeypatch.delenv(name)
    for verb in ("status", "logs"):
        assert str(elsewhere) in machine.minions("executor", verb).err
    assert machine.minions("executor", "config", "path").out == f"{owner_file}\n"
