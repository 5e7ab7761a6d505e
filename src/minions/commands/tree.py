"""The command tree, and one run of it: every error becomes one sentence and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.main import get_command

from minions.commands.options import closing_clients
from minions.commands.registry import CONTEXT, TREE, VerbGroup, open_group
from minions.domain.errors import MinionsError

HELP = "One shared pool from the Macs a team already owns: hand in batches, watch them, fetch the results."


def program() -> Any:
    """The whole command tree."""
    app = typer.Typer(
        cls=VerbGroup,
        add_completion=False,
        rich_markup_mode=None,
        no_args_is_help=True,
        context_settings=CONTEXT,
        help=HELP,
        name="minions",
    )
    app.callback()(_root)
    return open_group(get_command(app), VerbGroup.package, tuple(TREE))


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"minions {version('minions-cloud')}")  # noqa: T201 - data of this command
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def exit_code_of(arguments: list[str]) -> int:
    """Run one command. Never a traceback, unless MINIONS_DEBUG=1."""
    try:
        with closing_clients():
            program().main(args=arguments, prog_name="minions")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except MinionsError as error:
        if os.environ.get("MINIONS_DEBUG") == "1":
            raise
        from minions.commands.failures import report

        return report(error)
    except BrokenPipeError:
        # `minions … | head`: nobody reads on; nothing may be flushed to the closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("MINIONS_DEBUG") == "1":
            raise
        from minions.commands.failures import report_defect

        return report_defect(error)
    return 0
