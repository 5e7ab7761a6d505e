"""The service's files: what launchd and systemd read in them, and the flags that are read back."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.executor.service_files import Service, flags_of, launch_agent, program_of, session_of, systemd_unit

LOG = Path("/var/tmp/state/service.log")
ODD = "50 % of \"$HOME\" \\ 'Müller' & <Söhne>"
FLAGS = (("--server", "https://minions.example.org"), ("--owner", ODD), ("--kind", "embed"), ("--kind", "complete"))
SERVICE = Service((sys.executable, "-m", "minions.commands.main"), FLAGS, LOG, {"HF_HUB_OFFLINE": "1", "A": "$B%"})


def _service(flags: list[tuple[str, str]]) -> Service:
    return Service(("/opt/minions",), tuple(flags), LOG)


def test_a_launch_agent_is_what_macos_needs() -> None:
    document: dict[str, Any] = plistlib.loads(launch_agent(SERVICE).encode())
    assert document["Label"] == "org.minions.executor"
    assert document["ProgramArguments"] == [*SERVICE.program, "executor", *(word for flag in FLAGS for word in flag)]
    assert document["ProcessType"] == "Interactive", "the default throttles Metal several times over"
    assert document["LowPriorityIO"] is True
    assert document["RunAtLoad"] is True
    assert document["KeepAlive"] == {"SuccessfulExit": False}
    assert document["EnvironmentVariables"] == {"HF_HUB_OFFLINE": "1", "A": "$B%", "PYTHONUTF8": "1"}
    assert document["StandardOutPath"] == document["StandardErrorPath"] == str(LOG)
    assert (document["LimitLoadToSessionType"], document["Umask"]) == ("Aqua", 0o077)


def test_an_agent_says_for_which_session_it_is() -> None:
    named = _service([("--owner", "Background")])
    assert session_of(launch_agent(named)) == "Aqua"
    assert session_of(launch_agent(named, "Background")) == "Background"
    assert session_of("<plist>") == "Aqua"


def test_a_unit_starts_at_login_and_after_a_failure() -> None:
    lines = systemd_unit(SERVICE).splitlines()
    for line in ("WantedBy=default.target", "Restart=on-failure", 'Environment="PYTHONUTF8=1"', 'Environment="A=$B%%"'):
        assert line in lines
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert r'"50 %% of \"$$HOME\" \\ ' in start


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "minions-executor.service"
    unit.write_text(systemd_unit(SERVICE))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    unit.write_text(systemd_unit(SERVICE).replace("Restart=on-failure", "Restart=sometimes"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "sometimes" in verified.stderr, "a unit that is wrong is found"


PRINTABLE = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))


@given(st.lists(st.tuples(st.sampled_from(["--owner", "--kind", "--state"]), PRINTABLE)))
def test_flags_are_read_back_as_they_were(flags: list[tuple[str, str]]) -> None:
    service = _service(flags)
    for text in (launch_agent(service), systemd_unit(service)):
        assert flags_of(text) == service.flags
        assert program_of(text) == "/opt/minions"


@pytest.mark.parametrize("text", ["", "<plist>", "<plist version='1.0'><array/></plist>", "[Service]\nType=simple\n"])
def test_a_file_of_another_form_has_no_flags(text: str) -> None:
    assert flags_of(text) == ()
    assert program_of(text) == ""
