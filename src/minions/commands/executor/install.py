"""minions executor install."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from minions.commands import options, services
from minions.commands.executor import foreground, speaking

if TYPE_CHECKING:
    from minions.executor.installation import Places
    from minions.executor.service_files import Flags

_START_SECONDS = 30.0


def command(
    server: options.Server = None,
    token_file: options.TokenFile = None,
    token_stdin: speaking.TokenStdin = False,
    name: speaking.Name = None,
    owner: speaking.Owner = None,
    kind: Annotated[
        list[str] | None,
        speaking.kind_option("Take only embed, or only complete. Default: what the owner's file says, else both."),
    ] = None,
    memory_mb: speaking.MemoryMb = None,
    owner_file: speaking.OwnerFile = None,
    state: speaking.State = None,
    cache: speaking.Cache = None,
) -> None:
    """Install the executor as a service of yours, and start it: at once, and at every login.

    A LaunchAgent on a Mac, a systemd user unit on Linux. The token is kept in a file that only you can read. Once more,
    it changes what is given and leaves the rest as it is.
    """
    import sys

    from minions.domain.errors import MinionsError

    with services.needing("executor"):
        from minions.executor import installation
        from minions.executor.places import SERVICE_LOG_FILE
        from minions.executor.service_files import Service
        from minions.executor.service_manager import service_manager

    manager = service_manager(sys.platform, Path.home())
    before = speaking.installed_flags()
    places = speaking.places(before, state, cache, owner_file)
    if not before:
        _refuse_beside_another(places)
    address, token = _contact(before, places, server, token_file, token_stdin)
    wanted = {
        "--server": [address],
        "--token-file": [str(places.token_file)],
        "--name": [foreground.checked_name(name)] if name else None if before else [foreground.machine_name()],
        "--owner": [owner] if owner else None,
        "--kind": foreground.checked_kinds(kind) if kind else None,
        "--memory-mb": [str(memory_mb)] if memory_mb else None,
        "--owner-file": [str(places.owner_file)],
        "--state": [str(foreground.usable_directory("--state", places.state))],
        "--cache": [str(foreground.usable_directory("--cache", places.cache))],
    }
    flags = installation.merged(before, wanted)
    for flag, value in flags:
        if not value.isprintable():
            raise services.invalid(flag, f"{value!r} cannot stand in a service's file")
    if token is not None:
        installation.keep_token(places.token_file, token)
    is_new = installation.ensure_owner_file(places.owner_file)
    service = Service(installation.program(), flags, places.state / SERVICE_LOG_FILE, installation.carried(os.environ))
    try:
        manager.put(service)
    except MinionsError:
        # Nothing is installed: what was made for it would count for an executor that is started by hand.
        for file in [places.token_file] * (token is not None and not before) + [places.owner_file] * is_new:
            file.unlink(missing_ok=True)
        raise
    _say(manager.file, places, is_new=is_new, is_update=bool(before))
    _wait_for_it(places.state)


def _contact(
    before: Flags, places: Places, server: str | None, token_file: Path | None, stdin: bool
) -> tuple[str, str | None]:
    """The server and the token; None: the one that is kept from before."""
    known = dict(before).get("--server")
    is_given = token_file is not None or stdin or any(os.environ.get(f"MINIONS_{key}") for key in ("SERVER", "TOKEN"))
    if known and not is_given and server in (None, known) and places.token_file.exists():
        return known, None
    return foreground.server_and_token(server, None, token_file, stdin)


def _refuse_beside_another(places: Places) -> None:
    from minions.domain.errors import Conflict, MinionsError
    from minions.executor.control.client import ControlClient

    try:
        status = ControlClient(places.state).status()
    except MinionsError:
        return
    raise Conflict(
        f"an executor runs here already, as process {status.pid}, and two cannot share {places.state}",
        hint="End it with `minions executor stop`, then install.",
    )


def _say(file: Path, places: Places, *, is_new: bool, is_update: bool) -> None:
    import sys

    from minions.commands.output import to_stderr

    to_stderr(f"{'Updated' if is_update else 'Installed'} {file}")
    to_stderr(f"The token is in {places.token_file}, which only you can read.")
    made = " It was made now and holds the defaults; `minions executor config` shows them." if is_new else ""
    to_stderr(f"When and how this machine is lent is said in {places.owner_file}.{made}")
    if sys.platform == "linux":
        to_stderr("It runs while you are logged in; `loginctl enable-linger` lets it run from the machine's start on.")


def _wait_for_it(state: Path) -> None:
    """What the executor says once it is there. It is installed either way, and tries again by itself."""
    from minions.commands.executor.start import first_sentence
    from minions.commands.output import to_stderr
    from minions.domain.errors import MinionsError
    from minions.executor.control.client import ControlClient

    try:
        to_stderr(first_sentence(ControlClient(state), _START_SECONDS))
    except MinionsError:
        raise MinionsError(
            f"it is installed, and does not answer after {_START_SECONDS:.0f} s",
            hint="`minions executor doctor` looks for the cause, `minions executor logs` shows its log.",
        ) from None
