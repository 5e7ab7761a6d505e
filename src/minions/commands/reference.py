"""Writes the reference of the command line from its own help: `python -m minions.commands.reference > docs/cli.md`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from minions.commands.registry import VerbGroup
from minions.commands.tree import program

_HEAD = """# Command line

Made from `--help` by `python -m minions.commands.reference > docs/cli.md`; a test compares the two.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok, 1 error, 2 usage, 3 access, 4 not
found, 5 finished with failed rows, 6 wait timed out, 7 server unreachable, 130 detached by Ctrl-C.
"""


def reference() -> str:
    """The whole reference as Markdown, the same on every terminal."""
    os.environ.pop("COLUMNS", None)
    return _HEAD + "".join(_sections(program(), None, "minions"))


def _sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=80)
    level = "##" if parent is None or parent.parent is None else "###"
    yield f"\n{level} {context.command_path}\n\n```\n{command.get_help(context).strip()}\n```\n"
    if isinstance(command, VerbGroup):
        for verb in command.list_commands(context):
            yield from _sections(command.get_command(context, verb), context, verb)


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 - this is the program's output
