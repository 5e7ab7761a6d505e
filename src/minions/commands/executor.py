"""minions executor."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from minions.commands import options, services

_KINDS = ("embed", "complete")


def command(
    server: options.Server = None,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="Others on this machine can see it; better MINIONS_TOKEN."),
    ] = None,
    token_file: options.TokenFile = None,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read the token from standard input.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", envvar="MINIONS_NAME", help="Default: this machine's name."),
    ] = None,
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", envvar="MINIONS_OWNER", help="Whose machine this is.")
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="DIR", envvar="MINIONS_STATE", help="Its identity and logs; one executor each."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", envvar="MINIONS_CACHE", help="Where models are kept."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", envvar="MINIONS_KIND", help="Take only embed, or only complete. Default: both."
        ),
    ] = None,
    prefer: Annotated[
        list[str] | None,
        typer.Option(
            "--prefer",
            metavar="TEAM/PROJECT/TASK",
            envvar="MINIONS_PREFER",
            help="Take this work first; * is any. Repeat, the dearest first.",
        ),
    ] = None,
    memory_mb: Annotated[
        int | None,
        typer.Option(
            "--memory-mb",
            metavar="MB",
            envvar="MINIONS_MEMORY_MB",
            min=1,
            help="What a model may use. Default: three quarters of this machine's.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", metavar="NUMBER", envvar="MINIONS_THREADS", min=1, help="CPU threads of an engine."),
    ] = None,
    device: Annotated[
        Literal["mps", "cuda", "cpu"] | None,
        typer.Option("--device", envvar="MINIONS_DEVICE", help="Default: the best there is."),
    ] = None,
    ollama_url: Annotated[
        str | None,
        typer.Option(
            "--ollama-url", metavar="URL", envvar="MINIONS_OLLAMA_URL", help="Default: this machine's, if it runs."
        ),
    ] = None,
    openai_url: Annotated[
        str | None,
        typer.Option(
            "--openai-url", metavar="URL", envvar="MINIONS_OPENAI_URL", help="Offer a local OpenAI-compatible server."
        ),
    ] = None,
    part_seconds: Annotated[
        float,
        typer.Option(
            "--part-seconds",
            metavar="SECONDS",
            envvar="MINIONS_PART_SECONDS",
            min=0.1,
            help="A long subtask commits what it has so often.",
        ),
    ] = 60.0,
    log_json: services.LogJson = False,
    parent_fd: services.ParentFd = None,
) -> None:
    """Run a Minion Executor on this machine.

    SIGTERM or Ctrl-C ends it within seconds; what it holds goes back to the queue. Without --server and --token it
    works for the deployment that `minions up` runs here.
    """
    services.begin(parent_fd, log_json)
    import platformdirs

    with services.needing("executor"):
        from minions.executor.main import run_executor
        from minions.executor.settings import ExecutorSettings

    place, secret = _server_and_token(server, token, token_file, token_stdin)
    settings = ExecutorSettings(
        server=place,
        token=secret,
        name=_checked_name(name) if name is not None else machine_name(),
        owner=owner,
        state=_directory("--state", state or Path(platformdirs.user_state_dir("minions")) / "executor"),
        cache=_directory("--cache", cache or Path(platformdirs.user_cache_dir("minions"))),
        kinds=_checked_kinds(kind or _KINDS),
        preferences=_checked_preferences(prefer or []),
        memory_mb=memory_mb,
        threads=threads,
        device=device,
        ollama_url=_checked_url("--ollama-url", ollama_url),
        openai_url=_checked_url("--openai-url", openai_url),
        part_seconds=part_seconds,
    )
    services.run_service(lambda: run_executor(settings))


def machine_name() -> str:
    """This machine's name, in the form that names have."""
    name = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().removesuffix(".local").lower()).strip("._-")
    return name[:63] or "executor"


def _server_and_token(server: str | None, token: str | None, token_file: Path | None, stdin: bool) -> tuple[str, str]:
    if sum((token is not None, token_file is not None, stdin)) > 1:
        raise services.invalid("--token", "give one of --token, --token-file and --token-stdin")
    found = options.settings(server, token_file)
    secret = token or (services.read_secret("--token-stdin") if stdin else found.token)
    if not secret:
        raise services.invalid(
            "--token-file",
            f"an executor needs a token for {found.server}, here or as MINIONS_TOKEN; "
            "`minions tokens create NAME --scope executor` makes one",
        )
    return found.server, secret


def _checked_name(name: str) -> str:
    from minions.domain.names import NAME, NAME_RULE

    if not NAME.fullmatch(name):
        raise services.invalid("--name", f"{name!r} is not a name: {NAME_RULE}")
    return name


def _checked_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    for kind in kinds:
        if kind not in _KINDS:
            raise services.invalid("--kind", f"{kind!r} is not one of {', '.join(_KINDS)}")
    return tuple(dict.fromkeys(kinds))


def _checked_preferences(texts: list[str]) -> tuple[str, ...]:
    from minions.domain.names import Preference

    try:
        return tuple(str(Preference.parse(text)) for text in texts)
    except ValueError as error:
        raise services.invalid("--prefer", str(error)) from None


def _checked_url(flag: str, url: str | None) -> str | None:
    if url is not None and not re.match(r"https?://[^/\s]", url):
        raise services.invalid(flag, f"{url!r} is no address; write one like http://127.0.0.1:11434")
    return url.rstrip("/") if url else None


def _directory(flag: str, path: Path) -> Path:
    place = path.expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise services.invalid(flag, f"{place} cannot be made: {(error.strerror or '').lower()}") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise services.invalid(flag, f"{place} cannot be written to")
    return place
