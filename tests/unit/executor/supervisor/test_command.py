"""What a process is given, and what it cannot be given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minions.executor.supervisor.command import (
    Command,
    CommandInvalid,
    argument_bytes,
    argv_sha256,
    environment_bytes,
)


def _command(*argv: str | bytes, **fields: Any) -> Command:
    return replace(Command("j7", argv, Path("/"), Path("out"), Path("err"), {}), **fields)


def test_text_stands_for_its_bytes_and_bytes_for_themselves() -> None:
    assert argument_bytes(_command("é", b"\xff", "\udcff", "")) == ["é".encode(), b"\xff", b"\xff", b""]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "job j7: the command is empty"),
        (("a", "b\0"), "job j7: argument 1 holds a zero byte"),
        (("\ud800",), "job j7: argument 0 holds half of a surrogate pair"),
    ],
)
def test_what_has_no_bytes_is_refused_by_its_place(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandInvalid, match=message):
        argument_bytes(_command(*argv))


def test_the_environment_is_the_given_one() -> None:
    command = _command("a", environment={"A": "given", "B": "ä"}, pass_through=("A", "HOME", "ABSENT"))
    chosen = environment_bytes(command, {"A": "ours", "HOME": "/root", "SECRET": "x"}, "t")
    assert chosen == {b"A": b"given", b"B": "ä".encode(), b"HOME": b"/root", b"MINIONS_JOB_TOKEN": b"t"}


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_a_name_that_no_variable_can_have(name: str) -> None:
    with pytest.raises(CommandInvalid, match="variable"):
        environment_bytes(_command("a", environment={name: "1"}), {}, "t")


def test_the_hash_tells_arguments_apart() -> None:
    assert argv_sha256([b"a b"]) != argv_sha256([b"a", b"b"])
