"""What the verbs of this machine's executor share: options, its state directory, and times as people write them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minions.commands import options, services
from minions.commands.executor import commanding
from minions.commands.output import print_json, to_stdout

if TYPE_CHECKING:
    from minions.domain.policy import OrderKind
    from minions.executor.control.client import ControlClient
    from minions.executor.control.messages import Status
    from minions.executor.installation import Places
    from minions.executor.service_files import Flags


def state_option(says: str) -> Any:
    """--state, as this verb means it."""
    return typer.Option("--state", metavar="DIR", envvar="MINIONS_STATE", help=says, show_default=False)


def owner_file_option(says: str) -> Any:
    """--owner-file, as this verb means it."""
    return typer.Option("--owner-file", metavar="FILE", envvar="MINIONS_OWNER_FILE", help=says, show_default=False)


def kind_option(says: str) -> Any:
    """--kind, as this verb means it."""
    return typer.Option("--kind", metavar="KIND", envvar="MINIONS_KIND", help=says)


State = Annotated[Path | None, state_option("Which executor, by its state directory.")]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", envvar="MINIONS_CACHE", help="Where models are kept.", show_default=False),
]
OwnerFile = Annotated[
    Path | None,
    owner_file_option("When and how this machine is lent. Default: owner.toml in the user's configuration directory."),
]
TokenStdin = Annotated[bool, typer.Option("--token-stdin", help="Read the token from standard input.")]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", envvar="MINIONS_NAME", help="Default: this machine's name."),
]
Owner = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", envvar="MINIONS_OWNER", help="Whose machine this is.")
]
MemoryMb = Annotated[
    int | None,
    typer.Option(
        "--memory-mb",
        metavar="MB",
        envvar="MINIONS_MEMORY_MB",
        min=1,
        help="What a model may use. Default: what the owner's file says, else three quarters of this machine's.",
    ),
]
Json = options.Json
HowLong = Annotated[
    list[str] | None,
    typer.Argument(metavar="[1h | until 18:00]", help="Default: until `resume`.", show_default=False),
]


def state_directory(state: Path | None) -> Path:
    """The one that is named, else where `minions executor` keeps its state."""
    import platformdirs

    return (state or Path(platformdirs.user_state_dir("minions")) / "executor").expanduser().absolute()


def owner_file_path(given: Path | None) -> Path:
    """The owner's file that is named, else the user's."""
    from minions.executor.owner_file import owner_file

    return (given or owner_file(os.environ)).expanduser().absolute()


def installed_flags() -> Flags:
    """The flags of the executor that is installed as a service here; none when there is none."""
    import sys

    from minions.executor.service import service_file
    from minions.executor.service_files import flags_of

    file = service_file(sys.platform, Path.home())
    return flags_of(file.read_text("utf-8")) if file is not None and file.exists() else ()


def places(installed: Flags, state: Path | None, cache: Path | None, owner_file: Path | None) -> Places:
    """Where the executor keeps its things: as it is said here, else as it was installed, else where it is usual."""
    import platformdirs

    from minions.executor.installation import Places

    known = {flag: Path(value) for flag, value in installed}
    kept = cache or known.get("--cache") or Path(platformdirs.user_cache_dir("minions"))
    return Places(
        state=state_directory(state or known.get("--state")),
        cache=kept.expanduser().absolute(),
        owner_file=owner_file_path(owner_file or known.get("--owner-file")),
    )


def state_here(state: Path | None) -> Path:
    """The state directory that is named, else that of the executor that is installed here, else the usual one."""
    return places(installed_flags(), state, None, None).state


def owner_file_here(given: Path | None, state: Path | None) -> Path:
    """The owner's file that is named, else the one that the executor reads that runs here or is installed here, else
    the user's."""
    from minions.domain.errors import MinionsError

    expected = places(installed_flags(), state, None, given)
    if given is None:
        try:
            found = executor(state).status().owner_file
        except MinionsError:
            found = None
        if found is not None:
            return Path(found)
    return expected.owner_file


def executor(state: Path | None) -> ControlClient:
    """The executor that runs here. Raises Conflict for one of commands, which has no such channel."""
    from minions.domain.errors import Conflict
    from minions.executor.control.client import ControlClient

    place = state_here(state)
    if commanding.found(place) is not None:
        raise Conflict(
            "the executor that runs here runs commands: it has no page, no owner's file and no preferences",
            hint="status, pause, finish, resume, stop and logs are for it as well.",
        )
    return ControlClient(place, _others() if state is None else ())


def _others() -> list[Path]:
    """State directories of the executors that `minions up` runs here."""
    from minions.executor.places import CONTROL_FILE
    from minions.runtime.settings_files import data_directory

    found = (data_directory(os.environ) / "executors").expanduser().absolute().glob(f"*/{CONTROL_FILE}")
    return sorted(file.parent for file in found)


def reloaded(state: Path | None) -> list[Status]:
    """What each executor that is found here says, once it has read its owner's file."""
    from minions.domain.errors import MinionsError
    from minions.executor.control.client import ControlClient

    found: list[Status] = []
    for place in [state_here(state), *(_others() if state is None else ())]:
        try:
            if commanding.found(place) is None:
                found.append(ControlClient(place).reload())
        except MinionsError:
            continue
    return found


def moment_of(words: Sequence[str], now: datetime) -> datetime | None:
    """`1h`, `until 18:00`, `18:00`, or nothing at all, which is for good. Raises ValidationFailed."""
    from minions.domain.moments import moment_after

    said = [word for word in words if word not in ("until", "for")]
    if not said:
        if words:
            raise services.invalid(words[0], "say how long, like 1h, or until when, like 18:00")
        return None
    try:
        return moment_after(" ".join(said), now)
    except ValueError as error:
        raise services.invalid("TIME", str(error)) from None


def local_now() -> datetime:
    """The clock on this machine's wall."""
    return datetime.now().astimezone()


def order(kind: OrderKind, how_long: Sequence[str], state: Path | None, *, json: bool) -> None:
    """Order it of the executor that runs here, and say what became of it."""
    from minions.executor.control.messages import OrderRequest

    until = moment_of(how_long, local_now())
    place = state_here(state)
    if commanding.found(place) is not None:
        commanding.order(kind, until, place, json=json)
        return
    say(executor(state).order(OrderRequest(kind=kind, until=until)), json=json)


def preferred(status: Status) -> str:
    """What it works on first, and until when."""
    wishes = {each.preference: each.until for each in status.wishes}
    told = [
        name + (f" until {until.astimezone():%a %H:%M}" if (until := wishes.get(name)) else "")
        for name in status.preferences
    ]
    return ", ".join(told) or "any task"


def say(status: Status, *, json: bool) -> None:
    """What became of it: one sentence."""
    if json:
        print_json(status.model_dump(mode="json"))
    else:
        to_stdout(status.sentence)
