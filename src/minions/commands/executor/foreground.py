"""minions executor, without a verb."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from minions.commands import options, services
from minions.commands.executor import speaking

_KINDS = ("embed", "complete")


def command(
    context: typer.Context,
    server: options.Server = None,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="Others on this machine can see it; better MINIONS_TOKEN."),
    ] = None,
    token_file: options.TokenFile = None,
    token_stdin: speaking.TokenStdin = False,
    name: speaking.Name = None,
    owner: speaking.Owner = None,
    state: Annotated[Path | None, speaking.state_option("Its identity and logs; one executor each.")] = None,
    cache: speaking.Cache = None,
    kind: Annotated[
        list[str] | None,
        speaking.kind_option(
            "Take only embed, or only complete. Default: what the owner's file says, else both. "
            "command: run programs of administrators, and nothing else; see --slots."
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="NUMBER",
            envvar="MINIONS_SLOTS",
            min=1,
            max=1024,
            help="With --kind command: jobs at once. Default: 1.",
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option(
            "--repository",
            metavar="DIR",
            help="With --kind command: the git repository whose commits are run. Default: the current directory.",
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
    owner_file: Annotated[
        Path | None,
        speaking.owner_file_option(
            "When and how this machine is lent. Default: owner.toml in the user's configuration directory; "
            "without that file, it works at any time."
        ),
    ] = None,
    always: Annotated[
        bool, typer.Option("--always", envvar="MINIONS_ALWAYS", help="Work at any time, and read no owner's file.")
    ] = False,
    memory_mb: speaking.MemoryMb = None,
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
    facts_file: Annotated[Path | None, typer.Option("--facts-file", metavar="FILE", hidden=True)] = None,
    log_json: services.LogJson = False,
    parent_fd: services.ParentFd = None,
) -> None:
    """Run a Minion Executor on this machine.

    SIGTERM or Ctrl-C ends it within seconds; what it holds goes back to the queue. Without --server and --token it
    works for the deployment that `minions up` runs here.
    """
    if services.is_for_verb(context):
        return
    services.begin(parent_fd, log_json)
    import platformdirs

    with services.needing("executor"):
        from minions.executor.commands.local import run_local_commands
        from minions.executor.main import run_executor
        from minions.executor.places import LOG_FILE
        from minions.executor.settings import ExecutorSettings
        from minions.runtime.logs import also_to_file

    if kind and "command" in kind:
        if set(kind) != {"command"}:
            raise services.invalid("--kind", "an executor of commands takes nothing else; start another for the rest")
        place, secret = server_and_token(server, token, token_file, token_stdin)
        directory = usable_directory("--state", speaking.state_directory(state))
        also_to_file(directory / LOG_FILE)
        place_of_git = (repository or Path.cwd()).expanduser().absolute()
        called = checked_name(name) if name is not None else machine_name()
        services.run_service(
            lambda: run_local_commands(place, secret, called, owner or "", directory, slots or 1, place_of_git)
        )
        return
    if slots is not None or repository is not None:
        raise services.invalid("--slots" if slots else "--repository", "it is for --kind command")
    if always and owner_file is not None:
        raise services.invalid("--always", "give it or --owner-file")
    place, secret = server_and_token(server, token, token_file, token_stdin)
    directory = usable_directory("--state", speaking.state_directory(state))
    also_to_file(directory / LOG_FILE)
    settings = ExecutorSettings(
        server=place,
        token=secret,
        name=checked_name(name) if name is not None else machine_name(),
        owner=owner or "",
        state=directory,
        cache=usable_directory("--cache", cache or Path(platformdirs.user_cache_dir("minions"))),
        kinds=checked_kinds(kind) if kind else None,
        preferences=checked_preferences("--prefer", prefer or []),
        memory_mb=memory_mb,
        threads=threads,
        device=device,
        ollama_url=_checked_url("--ollama-url", ollama_url),
        openai_url=_checked_url("--openai-url", openai_url),
        part_seconds=part_seconds,
        owner_file=None if always else speaking.owner_file_path(owner_file),
        facts_file=facts_file,
    )
    services.run_service(lambda: run_executor(settings))


def machine_name() -> str:
    """This machine's name, in the form that names have."""
    name = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().removesuffix(".local").lower()).strip("._-")
    return name[:63] or "executor"


def server_and_token(server: str | None, token: str | None, token_file: Path | None, stdin: bool) -> tuple[str, str]:
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


def checked_name(name: str) -> str:
    from minions.domain.names import NAME, NAME_RULE

    if not NAME.fullmatch(name):
        raise services.invalid("--name", f"{name!r} is not a name: {NAME_RULE}")
    return name


def checked_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    for kind in kinds:
        if kind not in _KINDS:
            raise services.invalid("--kind", f"{kind!r} is not one of {', '.join(_KINDS)}")
    return tuple(dict.fromkeys(kinds))


def checked_preferences(flag: str, texts: Sequence[str]) -> tuple[str, ...]:
    from minions.domain.names import Preference

    try:
        return tuple(str(Preference.parse(text)) for text in texts)
    except ValueError as error:
        raise services.invalid(flag, str(error)) from None


def _checked_url(flag: str, url: str | None) -> str | None:
    if url is not None and not re.match(r"https?://[^/\s]", url):
        raise services.invalid(flag, f"{url!r} is no address; write one like http://127.0.0.1:11434")
    return url.rstrip("/") if url else None


def usable_directory(flag: str, path: Path) -> Path:
    place = path.expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise services.invalid(flag, f"{place} cannot be made: {(error.strerror or '').lower()}") from None
    if not os.access(place, os.W_OK | os.X_OK):
        raise services.invalid(flag, f"{place} cannot be written to")
    return place
