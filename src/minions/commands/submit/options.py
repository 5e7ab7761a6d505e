"""The options that both kinds of batch share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from minions.domain.choices import PartFormat

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="JSONL, CSV or Parquet: local files, s3:// or file:// URIs, upl_… ids, or - for standard input.",
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Option("--model", "-m", metavar="MODEL", help="hf:ORG/NAME, a path, s3://…, ollama:NAME, openai:NAME."),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Names a row; carried into the output.")]
Keep = Annotated[
    list[str] | None, typer.Option("--keep", metavar="COLUMN", help="Carry along; repeat, or separate by commas.")
]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter of the engine; repeat. @FILE reads a file."),
]
Format = Annotated[
    Literal["jsonl", "csv", "parquet"] | None,
    typer.Option("--format", help="Of the inputs. Default: by their names."),
]
OutputFormat = Annotated[PartFormat, typer.Option("--output-format", help="Of the parts.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Default: the server chooses.")]
Team = Annotated[str | None, typer.Option("--team", metavar="NAME", help="Default: from the settings.")]
Project = Annotated[str | None, typer.Option("--project", metavar="NAME", help="Default: from the settings.")]
Priority = Annotated[
    int | None,
    typer.Option("--priority", metavar="0..1000", help="Smaller runs first. Default: 100."),
]
SubtaskBytes = Annotated[
    int | None,
    typer.Option(
        "--subtask-bytes",
        metavar="BYTES",
        help="Input for one subtask. Default: about a minute's work.",
    ),
]
Memory = Annotated[
    int | None,
    typer.Option(
        "--memory-mb",
        metavar="MB",
        help="Memory that the model needs, when the server's guess is off.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="Handing in the same again with the same key gives the same task.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", "--watch", "-w", help="Stay until it has ended.")]
WaitTimeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="With --wait: give up after."),
]
