"""What launchctl and systemctl are asked, against programs that stand in their place (see stand_ins)."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path

import pytest

from minions.domain.errors import NotFound
from minions.executor.service_files import LABEL, UNIT, Service
from minions.executor.service_manager import (
    Launchd,
    Running,
    ServiceRefused,
    Systemd,
    parse_launchctl,
    parse_systemctl,
    service_manager,
)
from tests.unit.executor.stand_ins import StandIns

SERVICE = Service(("/opt/minions",), (("--server", "http://a"),), Path("/tmp/service.log"))
OTHER = Service(("/opt/minions",), (("--server", "http://b"),), Path("/tmp/service.log"))
SCREEN, BACKGROUND = f"gui/{os.getuid()}", f"user/{os.getuid()}"
UNLOADED = [f"print {SCREEN}/{LABEL}", f"print {BACKGROUND}/{LABEL}"]


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    return StandIns(tmp_path / "stand-ins", monkeypatch)


@pytest.fixture
def launchd(tmp_path: Path) -> Launchd:
    return Launchd(tmp_path / "LaunchAgents" / f"{LABEL}.plist")


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    return Systemd(tmp_path / "user" / UNIT)


def test_an_agent_goes_to_the_screen_and_again_takes_its_own_place(stand_ins: StandIns, launchd: Launchd) -> None:
    begin = [f"enable {SCREEN}/{LABEL}", f"bootstrap {SCREEN} {launchd.file}"]
    launchd.put(SERVICE)
    assert stand_ins.calls() == [f"print {SCREEN}", *UNLOADED, *begin]
    assert launchd.look() == Running(True)
    stand_ins.calls()
    launchd.put(OTHER)
    asked = f"print {SCREEN}/{LABEL}"
    ends = [asked, f"bootout {SCREEN}/{LABEL}", asked, asked, f"print {BACKGROUND}/{LABEL}"]
    assert stand_ins.calls() == [f"print {SCREEN}", *ends, *begin], "it is begun once the old one has ended"
    assert "http://b" in launchd.file.read_text()
    launchd.remove()
    assert stand_ins.calls() == ends
    assert not launchd.file.exists()
    assert launchd.look() == Running(False)


def test_without_a_login_at_the_screen_it_goes_to_the_background(stand_ins: StandIns, launchd: Launchd) -> None:
    stand_ins.set(SCREEN="")
    launchd.put(SERVICE)
    assert stand_ins.calls()[-1] == f"bootstrap {BACKGROUND} {launchd.file}"
    assert plistlib.loads(launchd.file.read_bytes())["LimitLoadToSessionType"] == "Background"
    launchd.remove()
    assert f"bootout {BACKGROUND}/{LABEL}" in stand_ins.calls()


def test_a_unit_is_enabled_and_begun_anew_when_it_changes(stand_ins: StandIns, systemd: Systemd) -> None:
    first = ["--user daemon-reload", f"--user enable --now {UNIT}"]
    systemd.put(SERVICE)
    assert stand_ins.calls() == first
    systemd.put(OTHER)
    assert stand_ins.calls() == [*first, f"--user restart {UNIT}"]
    assert "http://b" in systemd.file.read_text()
    assert systemd.look() == Running(True)
    stand_ins.calls()
    systemd.remove()
    assert stand_ins.calls() == [f"--user disable --now {UNIT}", "--user daemon-reload"]
    assert not systemd.file.exists()


def test_a_refusal_is_told_and_leaves_what_was_there(stand_ins: StandIns, launchd: Launchd, systemd: Systemd) -> None:
    stand_ins.set(REFUSAL="Bootstrap failed: 5: Input/output error")
    with pytest.raises(ServiceRefused, match=r"bootstrap .* was refused: Bootstrap failed: 5: Input/output error"):
        launchd.put(SERVICE)
    assert not launchd.file.exists()
    stand_ins.set(REFUSAL="")
    systemd.put(SERVICE)
    stand_ins.set(REFUSAL="Failed to connect to bus: No medium found")
    with pytest.raises(ServiceRefused, match="daemon-reload` was refused: Failed to connect to bus") as caught:
        systemd.put(OTHER)
    assert "XDG_RUNTIME_DIR" in caught.value.advice
    assert "http://a" in systemd.file.read_text()
    assert systemd.look() is None


def test_a_machine_without_a_service_manager_is_told_so(
    launchd: Launchd, systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="launchctl is not on the PATH"):
        launchd.put(SERVICE)
    with pytest.raises(NotFound, match="systemctl is not on the PATH"):
        systemd.put(SERVICE)
    assert not systemd.file.exists()
    assert systemd.look() is None
    with pytest.raises(NotFound, match="on freebsd14"):
        service_manager("freebsd14", tmp_path)


PRINTED = """gui/501/org.minions.executor = {
\tactive count = 1
\tpath = /Users/NAME/Library/LaunchAgents/org.minions.executor.plist
\ttype = LaunchAgent
\tstate = %s

\tprogram = /Users/NAME/.local/bin/minions
\tdomain = gui/501 [100005]
\truns = 3
\tlast exit code = %s

\tspawn type = interactive (4)
}
"""


@pytest.mark.parametrize(
    ("state", "code", "found"),
    [
        ("running", "(never exited)", Running(True)),
        ("not running", "0", Running(False, "0")),
        ("not running", "78: EX_CONFIG", Running(False, "78: EX_CONFIG")),
        ("spawn scheduled", "1", Running(False, "1")),
    ],
)
def test_what_launchctl_prints(state: str, code: str, found: Running) -> None:
    assert parse_launchctl(PRINTED % (state, code)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ActiveState=active\nResult=success\nExecMainStatus=0\n", Running(True)),
        ("Result=exit-code\nExecMainStatus=3\nActiveState=activating\n", Running(False, "3")),
        ("Result=success\nExecMainStatus=0\nActiveState=inactive\n", Running(False)),
        ("", None),
    ],
)
def test_what_systemctl_shows(text: str, found: Running | None) -> None:
    assert parse_systemctl(text) == found
