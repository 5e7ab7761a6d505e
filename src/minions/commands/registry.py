"""Which verbs there are, and the groups that import a verb's file only when it is needed.

A verb is one file with a function `command`: `tasks ls` is commands/tasks/ls.py, `open` is commands/open.py. A file
keeps its heavy imports inside `command`, because `minions --help` imports all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

TREE: Final[dict[str, tuple[str, ...]]] = {
    "submit": ("embed", "complete"),
    "tasks": ("ls", "show", "watch", "wait", "pause", "resume", "cancel", "retry", "results", "errors"),
    "executors": ("ls", "show", "abandon"),
    "tokens": ("create", "ls", "revoke"),
    "config": ("show",),
    "run": (),
    "ledger": (),
    "explain": (),
    "verify": (),
    "merge": (),
    "stop": (),
    "hosts": ("check", "ls", "slots", "pause", "drain", "resume", "abandon"),
    "open": (),
    "up": (),
    "demo": (),
    "executor": (
        *("install", "uninstall", "start", "stop"),
        *("pause", "finish", "resume", "status", "doctor", "logs", "history", "config", "prefer", "open"),
    ),
    "doctor": (),
    "server": (),
    "watchdog": (),
}
"""All verbs; those with names behind them are groups."""

OWN_COMMANDS: Final[dict[str, str]] = {"executor": "foreground"}
"""Groups that do something without a verb: the file of the group's package that says what."""

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Work": ("submit", "tasks", "open"),
    "Own machines": ("run", "ledger", "explain", "verify", "merge", "stop", "hosts"),
    "Machines": ("up", "demo", "executor", "executors", "doctor"),
    "Operation": ("server", "watchdog", "tokens", "config"),
}
"""How `minions --help` lists the verbs of TREE."""

_NUMBER = re.compile(r"-\d")

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


class VerbGroup(TyperGroup):
    """A group whose verbs are imported when they are asked for."""

    package = "minions.commands"
    verbs: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.verbs)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the verbs, those of the program itself under headings."""
        sections = SECTIONS if self.package == VerbGroup.package else {"Commands": self.verbs}
        width = max(map(len, self.verbs))
        for title, names in sections.items():
            verbs = [(name, self.get_command(ctx, name)) for name in names if name in self.verbs]
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), verb.get_short_help_str(formatter.width - width - 6)) for name, verb in verbs]
                )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.verbs:
            return None
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _build(self.package, cmd_name)
        return self.commands[cmd_name]


class Verb(TyperCommand):
    """A verb. What looks like a negative number is a value for it, and no option that there is not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with_value = {name for each in self.params if not getattr(each, "is_flag", True) for name in each.opts}
        return super().parse_args(ctx, numbers_last(args, with_value))


def numbers_last(args: Sequence[str], with_value: Collection[str]) -> list[str]:
    """The words of a command line with `-5m` and the like behind a `--`, but for those that an option takes; pure."""
    if "--" in args:
        return list(args)
    numbers = [
        place
        for place, word in enumerate(args)
        if _NUMBER.match(word) and not (place and args[place - 1] in with_value)
    ]
    kept = [word for place, word in enumerate(args) if place not in numbers]
    return [*kept, "--", *(args[place] for place in numbers)] if numbers else kept


def _build(package: str, name: str) -> Any:
    if package == VerbGroup.package and TREE[name]:
        return build_group(f"{package}.{name}", name, TREE[name])
    module = import_module(f"{package}.{name.replace('-', '_')}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Verb, context_settings=dict(CONTEXT), no_args_is_help=False)(module.command)
    return get_command(app)


def build_group(package: str, name: str, verbs: tuple[str, ...]) -> VerbGroup:
    """A group of verbs; its package's docstring says what it is for."""
    if name in OWN_COMMANDS:
        return open_group(_group_with_command(package, name), package, verbs)
    group = VerbGroup(
        name=name,
        help=import_module(package).__doc__,
        no_args_is_help=True,
        context_settings=dict(CONTEXT),
        rich_markup_mode=None,
    )
    return open_group(group, package, verbs)


def _group_with_command(package: str, name: str) -> Any:
    """A group that does something of its own when no verb is given."""
    app = typer.Typer(
        name=name,
        cls=VerbGroup,
        add_completion=False,
        rich_markup_mode=None,
        invoke_without_command=True,
        context_settings=dict(CONTEXT),
    )
    app.callback()(import_module(f"{package}.{OWN_COMMANDS[name]}").command)
    return get_command(app)


def open_group(group: Any, package: str, verbs: tuple[str, ...]) -> VerbGroup:
    """Tell a group where its verbs are."""
    assert isinstance(group, VerbGroup)
    group.package = package
    group.verbs = verbs
    return group
