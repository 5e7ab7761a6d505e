"""minions executor config."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from minions.commands import services
from minions.commands.executor import speaking

OwnerFile = Annotated[
    Path | None,
    speaking.owner_file_option(
        "Default: the one that the executor reads that runs or is installed here, else owner.toml in the user's "
        "configuration directory."
    ),
]


def command(
    what: Annotated[
        Literal["show", "path", "edit", "set"], typer.Argument(help="Show what counts, or change it.")
    ] = "show",
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="With set.", show_default=False)] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="With set.", show_default=False)] = None,
    owner_file: OwnerFile = None,
    state: speaking.State = None,
    json: speaking.Json = False,
) -> None:
    """Show, check and change the owner's file: when and how this machine is lent. A change counts at once."""
    from minions.commands.output import to_stdout

    file = speaking.owner_file_here(owner_file, state)
    if (what == "set") != (value is not None) or (what != "set" and key is not None):
        raise services.invalid("KEY VALUE", "they are given with `set`, both of them")
    match what:
        case "path":
            to_stdout(str(file))
        case "set":
            assert key is not None
            assert value is not None
            _set(file, key, value, state)
        case "edit":
            _edit(file, state)
        case _:
            _show(file, json=json)


def _show(file: Path, *, json: bool) -> None:
    from minions.commands.output import Column, print_json, print_table, to_stderr
    from minions.domain.policy import OwnerPolicy
    from minions.executor.owner_file import read_owner_file
    from minions.executor.owner_keys import OWNER_KEYS

    try:
        policy, is_there = read_owner_file(file), True
    except FileNotFoundError:
        policy, is_there = OwnerPolicy(), False
    default = OwnerPolicy()
    rows = [
        (
            each.name,
            each.write(getattr(policy, each.field)),
            getattr(policy, each.field) != getattr(default, each.field),
        )
        for each in OWNER_KEYS
    ]
    if json:
        keys = {name: {"value": _value(text), "from": str(file) if own else "default"} for name, text, own in rows}
        print_json({"file": str(file), "exists": is_there, "keys": keys})
        return
    if not is_there:
        to_stderr(f"There is no {file}: an executor that is started by hand works at any time. These are the defaults;")
        to_stderr("`minions executor config edit` writes a file with them.")
    print_table(
        [Column("KEY"), Column("VALUE", flexible=True), Column("FROM")],
        [[name, (text, "bold" if own else ""), "the file" if own else "default"] for name, text, own in rows],
    )


def _value(text: str) -> Any:
    """A value of TOML as JSON has it."""
    return tomllib.loads(f"value = {text}")["value"]


def _set(file: Path, key: str, value: str, state: Path | None) -> None:
    from minions.commands.output import to_stderr
    from minions.executor.owner_file import change

    is_new = not file.exists()
    policy = change(file, key, value)
    if is_new:
        to_stderr(f"{file} was made. All else in it is the default, and counts as well (mode {policy.mode.value}).")
    _tell(file, state)


def _edit(file: Path, state: Path | None) -> None:
    """In the user's editor; a copy is edited, and takes the place of the file once it is valid. A copy that was not
    is kept, and edited on."""
    from minions.commands.output import to_stderr
    from minions.domain.errors import MinionsError
    from minions.executor.owner_file import OwnerFileInvalid, read_owner_file, text_of, write

    draft = file.with_name(f".{file.name}.draft")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_kept = draft.exists() and _wants_kept(draft)
    if not is_kept:
        draft.write_text(text_of(file), encoding="utf-8")
    editor, is_done = _run_editor(draft)
    if not is_done:
        if not is_kept:
            draft.unlink(missing_ok=True)
        raise MinionsError(
            f"the editor {editor} could not be run to its end; {file} is as it was",
            hint="EDITOR names another, such as EDITOR=nano.",
        )
    try:
        read_owner_file(draft)
    except OwnerFileInvalid as error:
        kept = f"It is in {draft}: delete that to begin anew."
        error.advice = f"{file} is as it was; the next edit goes on with what you wrote. {kept}"
        raise
    write(file, draft.read_text("utf-8"))
    draft.unlink()
    to_stderr(f"{file} is valid.")
    _tell(file, state)


def _run_editor(draft: Path) -> tuple[str, bool]:
    """(the user's editor, whether it ran to its end)."""
    import os
    import shlex
    import subprocess

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return editor, subprocess.run([*shlex.split(editor), str(draft)], check=False).returncode == 0
    except (OSError, ValueError):
        return editor, False


def _wants_kept(draft: Path) -> bool:
    """Whether to go on with what was written last time and was not valid; without a terminal nobody throws it away."""
    import sys

    from minions.commands.output import to_stderr
    from minions.executor.owner_file import parse_owner_file

    _, errors = parse_owner_file(draft.read_text("utf-8", "replace"))
    wrong = "; ".join(error.message for error in errors) or "not finished"
    to_stderr(f"What you wrote last time is still there, in {draft}: {wrong}.")
    return not sys.stdin.isatty() or typer.confirm("Go on with it?", default=True, err=True)


def _tell(file: Path, state: Path | None) -> None:
    """Executors that run read their file anyhow, twice a second; each says what it makes of it."""
    from minions.commands.output import to_stderr

    heard = speaking.reloaded(state)
    readers = [status for status in heard if status.owner_file == str(file)]
    for status in readers:
        name = f"{status.name}: " if len(readers) > 1 else ""
        to_stderr(f"{name}{status.sentence}")
    if readers:
        return
    for status in heard:
        to_stderr(f"{status.name}, which runs here, does not read it, but {status.owner_file or 'no file at all'}.")
    to_stderr("An executor with a state directory of its own (--state) takes it up at once; else the next one does.")
