"""minions tasks results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from minions.commands import options
from minions.domain.choices import ResultsFormat


def command(
    task: options.TaskReference,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Or a folder. Default: the task's name here; - is standard output."
        ),
    ] = None,
    format: Annotated[
        ResultsFormat | None,
        typer.Option("--format", help="Default: by the file's name; jsonl on standard output."),
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Take what there is so far.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there already.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Fetch the results in input order; every part is verified."""
    from minions.client.task import export_format
    from minions.commands.output import bytes_text, counted, print_json, to_stderr, to_stdout

    found = options.client(server, token_file).task(task)
    if output == "-":
        found.write(sys.stdout.buffer, format or "jsonl", partial)
        return
    path = _place(output, f"{found.view.task_name}.{format or found.view.output_format}", overwrite)
    rows = found.write(path, export_format(path, format, found.view.output_format), partial)
    if json:
        print_json({"task": found.id, "path": str(path), "rows": rows, "size_bytes": path.stat().st_size})
        return
    to_stdout(str(path))
    if not quiet:
        state = "" if found.state == "completed" else f"; the task is {found.state}"
        to_stderr(f"{counted(rows, 'row')}, {bytes_text(path.stat().st_size)}, every part verified{state}.")


def _place(output: str | None, name: str, overwrite: bool) -> Path:
    """The file to write. Raises MinionsError, before anything is fetched, for one that could not be."""
    from minions.domain.errors import Conflict, FieldError, ValidationFailed

    path = Path(output or name).expanduser()
    is_folder = path.is_dir() or (output or "").endswith(("/", os.sep))
    path = path / name if is_folder else path
    wrong = None
    if not path.parent.is_dir():
        wrong = f"there is no folder {path.parent}" + ("" if not path.parent.exists() else ", but a file of that name")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        wrong = f"you may not write in {path.parent.absolute()}"
    elif path.is_dir():
        wrong = f"{path} is a folder"
    if wrong is not None:
        hint = "Make it, or name another place with -o." if "there is no" in wrong else "Name another with -o."
        raise ValidationFailed([FieldError("--output", "unusable", wrong)], hint=hint)
    if path.exists() and not overwrite:
        raise Conflict(f"{path} is there already", hint="Name another file with -o, or pass --overwrite.")
    return path
