"""minions submit complete."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import options as shared
from minions.commands.submit import options


def command(
    inputs: options.Inputs,
    model: options.Model,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt", metavar="TEMPLATE", help="{column} stands for a row's value; @FILE reads it from a file."
        ),
    ] = "{text}",
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="System message; @FILE reads it from a file.")
    ] = None,
    id: options.IdColumn = None,
    keep: options.Keep = None,
    param: options.Params = None,
    team: options.Team = None,
    project: options.Project = None,
    name: options.Name = None,
    priority: options.Priority = None,
    format: options.Format = None,
    output_format: options.OutputFormat = "parquet",
    subtask_bytes: options.SubtaskBytes = None,
    memory_mb: options.Memory = None,
    idempotency_key: options.Key = None,
    wait: options.Wait = False,
    timeout: options.WaitTimeout = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
    server: shared.Server = None,
    token_file: shared.TokenFile = None,
) -> None:
    """Hand in prompts to complete.

    \b
    minions submit complete tickets.csv --model ollama:llama3.2 \\
        --prompt "Summarise: {body}" --param max_tokens=64
    """
    from minions.client.submission import Draft
    from minions.commands.submitting import hand_in, names_of

    client = shared.client(server, token_file, team, project)
    draft = Draft(
        kind="complete",
        model=model,
        parameters={"prompt": prompt, "system": system, "id": id, "keep": names_of(keep or ())},
        team=client.settings.team,
        project=client.settings.project,
        task_name=name,
        input_format=format,
        output_format=output_format,
        priority=priority,
        memory_mb=memory_mb,
        subtask_bytes=subtask_bytes,
    )
    hand_in(
        client, draft, param or [], inputs,
        idempotency_key=idempotency_key, wait=wait, timeout=timeout, json=json, quiet=quiet,
    )  # fmt: skip
