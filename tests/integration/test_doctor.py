"""The doctor and the service against a real server and a real executor."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from minions.executor.doctor.examine import CHECKS, examine
from minions.executor.doctor.findings import Finding, Verdict
from minions.executor.doctor.subject import Subject
from minions.runtime.version import VERSION
from minions.server.api import other_routes
from tests.integration.executor.conftest import deployed, migrated_url
from tests.integration.executor.deployment import ADMIN, EXECUTOR, Rig, eventually
from tests.integration.executor.lending import AWAY, write_facts
from tests.integration.test_lending import MINIONS, OWNER

__all__ = ["deployed", "migrated_url"]

pytestmark = pytest.mark.timeout(300)  # each command starts an interpreter

OF_THE_SERVER = [check for check in CHECKS if check.name in ("server", "token", "clock", "version")]


def _subject(home: Path, server: str, token: str) -> Subject:
    return Subject(server, token, home / "state", home / "cache", home / "owner.toml")


async def _found(subject: Subject) -> dict[str, Finding]:
    """What the checks of the server's side find."""
    found = await asyncio.to_thread(lambda: list(examine(subject, OF_THE_SERVER)))
    return {finding.check: finding for finding in found}


async def test_a_good_token_a_wrong_one_and_one_of_another_scope(deployed: Rig, tmp_path: Path) -> None:
    subject = _subject(tmp_path, deployed.url, EXECUTOR)
    found = await _found(subject)
    assert {check: finding.verdict for check, finding in found.items()} == dict.fromkeys(found, Verdict.OK), found
    assert f"{VERSION} on the server" in found["version"].says
    assert (await deployed.http.get("/api/v1/executors")).json()["data"] == [], "looking registers nobody"
    found = await _found(replace(subject, token="mns_wrong"))
    assert found["server"].verdict is Verdict.OK
    assert (found["token"].verdict, found["token"].says) == (Verdict.WRONG, "this token is unknown, expired or revoked")
    assert found["version"].verdict is Verdict.UNSURE
    made = await deployed.http.post("/api/v1/tokens", json={"name": "anna", "scope": "submit"})
    found = await _found(replace(subject, token=made.json()["secret"]))
    assert found["token"].verdict is Verdict.WRONG
    assert "has the scope submit; this needs executor" in found["token"].says
    found = await _found(replace(subject, token=ADMIN))
    assert "administrator" in found["token"].says


async def test_an_older_server(deployed: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_routes, "VERSION", "0.0.9")
    found = (await _found(_subject(tmp_path, deployed.url, EXECUTOR)))["version"]
    assert (found.verdict, found.way_out) == (Verdict.WRONG, "upgrade the server")
    assert "0.0.9 on the server" in found.says


class Home:
    """A user's home, with a systemd that starts what a unit says, and nothing else of the machine's."""

    def __init__(self, home: Path, server: str) -> None:
        self.home, self.state = home, home / "state"
        programs = home / "programs"
        programs.mkdir()
        self._pid = home / "pid"
        systemctl = programs / "systemctl"
        systemctl.write_text(_SYSTEMCTL)
        systemctl.chmod(0o755)
        facts = home / "facts.json"
        write_facts(facts, AWAY)
        (home / "owner.toml").write_text(OWNER)
        self._environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "MINIONS_STATE": str(self.state),
            "MINIONS_CACHE": str(home / "cache"),
            "MINIONS_OWNER_FILE": str(home / "owner.toml"),
            "COLUMNS": "200",
            "SERVER": server,
        }

    async def __call__(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *MINIONS, *arguments, env=self._environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate(stdin.encode())
        assert b"Traceback" not in err, err.decode()
        return process.returncode or 0, out.decode(), err.decode()

    async def doctor(self, verb: tuple[str, ...] = ("doctor",)) -> tuple[int, dict[str, dict[str, Any]]]:
        code, out, err = await self(*verb, "--json")
        assert err == ""
        said = json.loads(out)
        assert said["ok"] == (code == 0)
        return code, {check["check"]: check for check in said["checks"]}

    @property
    def executor(self) -> psutil.Process | None:
        """The one that the stand-in started."""
        try:
            found = psutil.Process(int(self._pid.read_text()))
            return None if found.status() == psutil.STATUS_ZOMBIE else found
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None

    async def end(self) -> None:
        if (process := self.executor) is not None:
            process.kill()
            await eventually(lambda: self.executor is None)


# A systemd user session cannot be had here. This one starts the unit's own words with the unit's own environment, and
# ends what it started.
_SYSTEMCTL = """#!/bin/sh
unit="$XDG_CONFIG_HOME/systemd/user/minions-executor.service"
case "$2" in
  enable)
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    eval "exec env -i PATH=/usr/bin:/bin HOME=\\"$HOME\\" PYTHONUTF8=1 $line" > "$HOME/service.log" 2>&1 < /dev/null &
    echo $! > "$HOME/pid" ;;
  disable)
    kill "$(cat "$HOME/pid")"
    for _ in $(seq 1200); do kill -0 "$(cat "$HOME/pid")" 2> /dev/null || break; sleep 0.05; done ;;
  show) printf 'Result=success\\nExecMainStatus=0\\nActiveState=active\\n' ;;
esac
"""


@pytest.fixture
async def home(deployed: Rig, tmp_path: Path) -> AsyncGenerator[Home]:
    place = tmp_path / "home"
    place.mkdir()
    found = Home(place, deployed.url)
    yield found
    await found.end()


async def test_what_is_installed_works_and_the_doctor_finds_it(deployed: Rig, home: Home) -> None:
    code, out, err = await home(
        "executor", "install", "--server", deployed.url, "--token-stdin", "--name", "mac", stdin=f"{EXECUTOR}\n"
    )
    assert (code, out) == (0, ""), err
    assert "Installed" in err
    process = home.executor
    assert process is not None
    assert EXECUTOR not in " ".join(process.cmdline())

    async def names() -> bool:
        page = (await deployed.http.get("/api/v1/executors")).json()["data"]
        return [each["name"] for each in page] == ["mac"]

    await eventually(names, 60)
    code, found = await home.doctor()
    for check in ("server", "token", "clock", "version", "service", "executor", "owner", "files", "memory", "gpu"):
        assert found[check]["verdict"] == "ok", found[check]
    assert found["model"]["verdict"] == "unsure", "there is no model yet"
    assert EXECUTOR not in json.dumps(found)
    code, _, err = await home("executor", "uninstall")
    assert (code, "Kept the owner's file" in err) == (0, True), err
    assert home.executor is None
    assert not (home.state / "token").exists()
    code, found = await home.doctor(("executor", "doctor"))
    assert code == 1
    assert found["token"]["says"] == "there is none"
    assert found["service"]["verdict"] == "unsure"
    assert "refuses the connection" in found["server"]["says"]


async def test_people_read_marks_and_ways_out(deployed: Rig, home: Home) -> None:
    token = home.home / "token"
    token.write_text("mns_wrong")
    token.chmod(0o644)
    (home.home / "owner.toml").write_text("mode = sometimes\n")
    code, out, err = await home("executor", "doctor", "--server", deployed.url, "--token-file", str(token))
    assert (code, err) == (1, "")
    lines = out.splitlines()
    for line in (
        f"✗ files     others can read the secret in {token}",
        f"            → chmod 600 {token}",
        "✗ token     this token is unknown, expired or revoked",
        "            → minions executor config edit",
    ):
        assert line in lines, out
    assert any(line.startswith("✓ server    ") for line in lines)
    assert any(line.startswith("? executor  no executor runs here") for line in lines)
    assert "mns_wrong" not in out
