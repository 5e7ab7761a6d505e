"""The services that are shipped fit the code; an executor's are those that `minions executor install` makes."""

from __future__ import annotations

import configparser
import plistlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deploy.service_files import rendered

from minions.commands.tree import program
from minions.executor.service_files import flags_of
from tests.unit.deploy.shipped import DEPLOY


def test_what_is_shipped_is_what_the_code_makes() -> None:
    shipped = {name: (DEPLOY / name).read_text(encoding="utf-8") for name in rendered()}
    assert shipped == rendered(), "run: make services"


def test_the_flags_exist() -> None:
    root = program()
    command = root.get_command(root.make_context("minions", [], resilient_parsing=True), "executor")
    known = {flag for parameter in command.params for flag in parameter.opts}
    for text in rendered().values():
        flags = flags_of(text)
        assert {flag for flag, _ in flags} <= known
        assert "--token" not in dict(flags), "a token is no part of a file that others may read"


VERBS = ("server", "watchdog")


def _unit(verb: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] # the way that configparser documents
    parser.read(DEPLOY / "systemd" / f"minions-{verb}.service", encoding="utf-8")
    return parser["Service"]


def _variables(verb: str) -> dict[str, str]:
    text = (DEPLOY / "environment" / f"{verb}.env").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("verb", VERBS)
def test_a_unit_of_systemd_is_safe_and_starts_again(verb: str) -> None:
    unit = _unit(verb)
    assert unit["ExecStart"].split()[1:] == [verb, "--log-json"]
    assert unit["EnvironmentFile"] == f"/etc/minions/{verb}.env", "no secret stands in a file that all may read"
    assert unit["User"] == "minions"
    assert (unit["Restart"], unit["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (unit["NoNewPrivileges"], unit["ProtectSystem"], unit["CapabilityBoundingSet"]) == ("yes", "strict", "")
    assert ("StateDirectory" in unit) == (verb == "server"), "a watchdog writes nothing"


@pytest.mark.parametrize("verb", VERBS)
def test_systemd_takes_a_unit(verb: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd here")
    text = (DEPLOY / "systemd" / f"minions-{verb}.service").read_text(encoding="utf-8")
    copy = tmp_path / f"minions-{verb}.service"
    copy.write_text(text.replace("/opt/minions/bin/minions", "/bin/true"), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", VERBS)
def test_a_daemon_of_launchd_is_the_same_service(verb: str) -> None:
    daemon: dict[str, Any] = plistlib.loads((DEPLOY / "launchd" / f"org.minions.{verb}.plist").read_bytes())
    assert daemon["Label"] == f"org.minions.{verb}"
    shell, c, script = daemon["ProgramArguments"]
    assert (shell, c) == ("/bin/sh", "-c")
    assert script == (f"set -a; . /usr/local/etc/minions/{verb}.env && exec {_unit(verb)['ExecStart']}")
    assert (daemon["UserName"], daemon["KeepAlive"], daemon["RunAtLoad"]) == ("_minions", True, True)


@pytest.mark.parametrize("verb", VERBS)
def test_an_environment_names_options_and_no_secret(verb: str) -> None:
    root: Any = program()
    command = root.get_command(root.make_context("minions", [], resilient_parsing=True), verb)
    known = {parameter.envvar for parameter in command.params}
    variables = _variables(verb)
    assert set(variables) <= known
    assert not variables["MINIONS_DATABASE_URL"]
    required = {parameter.envvar for parameter in command.params if parameter.required}
    assert required <= set(variables)


@pytest.mark.parametrize("verb", VERBS)
def test_a_shell_reads_an_environment_as_systemd_does(verb: str, tmp_path: Path) -> None:
    """A password in single quotes, with what a shell would else take for its own."""
    url = "postgresql://minions:a$b&c;d`e@db/minions?sslmode=require"
    text = (DEPLOY / "environment" / f"{verb}.env").read_text(encoding="utf-8")
    file = tmp_path / f"{verb}.env"
    file.write_text(text.replace("MINIONS_DATABASE_URL=", f"MINIONS_DATABASE_URL='{url}'"), encoding="utf-8")
    script = f"set -a; . {file} && exec /bin/sh -c 'printf %s \"$MINIONS_DATABASE_URL\"'"
    assert subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout == url
