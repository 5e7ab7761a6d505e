"""The services that are shipped are those that `minions executor install` makes."""

from __future__ import annotations

from deploy.service_files import rendered

from minions.commands.tree import program
from minions.executor.service_files import flags_of
from tests.unit.deploy.shipped import DEPLOY


def test_what_is_shipped_is_what_the_code_makes() -> None:
    folders = ("launchd", "systemd")
    shipped = {
        f"{folder}/{file.name}": file.read_text(encoding="utf-8")
        for folder in folders
        for file in (DEPLOY / folder).iterdir()
    }
    assert shipped == rendered(), "run: make services"


def test_the_flags_exist() -> None:
    root = program()
    command = root.get_command(root.make_context("minions", [], resilient_parsing=True), "executor")
    known = {flag for parameter in command.params for flag in parameter.opts}
    for text in rendered().values():
        flags = flags_of(text)
        assert {flag for flag, _ in flags} <= known
        assert "--token" not in dict(flags), "a token is no part of a file that others may read"
