"""minions merge."""

from __future__ import annotations

import asyncio
import errno
import shlex
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from minions.commands import options
from minions.domain.errors import Conflict, MinionsError, NotFound

if TYPE_CHECKING:
    from minions.hosts.run_directory import Run
    from minions.hosts.verifying import Verified

_SHOWN = 20


def command(json: options.Json = False) -> None:
    """Run the merge command of minions.toml over the outputs of the last run, in their order.

    It refuses unless every job is done and every output is as the ledger says. Its exit code is that of the command.
    """
    from minions.commands.output import counted, print_json, to_stderr
    from minions.commands.project import last_run, standings_of
    from minions.hosts.project_file import FILE, read_project
    from minions.hosts.verifying import verify

    directory, run = last_run()
    merge = read_project(directory.root).run.merge
    if merge is None:
        raise NotFound(f"{FILE} says no merge in [run]", hint='Write one: merge = ["python", "merge.py", "{outputs}"]')
    standings = asyncio.run(standings_of(directory, run))
    refuse_unless_right(run, verify(directory.root, run, standings.finished))
    argv = merge_command(merge, [job.output for job, _ in run.jobs])
    to_stderr(f"{counted(len(run.jobs), 'output')} verified; running {shlex.join(merge)}", style="dim")
    began = time.monotonic()
    try:
        code = subprocess.run(argv, cwd=directory.root, check=False).returncode
    except OSError as error:
        too_long = error.errno == errno.E2BIG
        raise MinionsError(
            f"{merge[0]} cannot be run: {(error.strerror or '').lower()}",
            hint="There are too many outputs for one command line; let it read their directory." if too_long else "",
        ) from None
    record = {
        "command": list(merge),
        "commit": run.commit,
        "patch_sha256": run.patch_sha256,
        "outputs": len(run.jobs),
        "exit_code": code,
        "seconds": round(time.monotonic() - began, 3),
    }
    directory.note_merge(record)
    if json:
        print_json(record)
    raise typer.Exit(code if code >= 0 else 128 - code)


def merge_command(template: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """The command, with the outputs in place of {outputs}."""
    return [word for piece in template for word in (outputs if piece == "{outputs}" else [piece])]


def refuse_unless_right(run: Run, found: Verified) -> None:
    """Raises Conflict, naming what is not right."""
    if found.all_right:
        return
    named = [f"{run.jobs[place][0].output} is {what.value}" for place, what in found.wrong]
    named += [f"{run.jobs[place][0].output} is not done" for place in found.not_done]
    more = f"\n  and {len(named) - _SHOWN:,} more; `minions verify --json` lists all" if len(named) > _SHOWN else ""
    raise Conflict(
        "nothing was merged:" + "".join(f"\n  {each}" for each in named[:_SHOWN]) + more,
        hint="`minions run` puts that right.",
    )
