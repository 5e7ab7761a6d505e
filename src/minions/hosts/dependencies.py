"""What a project needs, installed on a host: once for each lock file and platform, its log kept, its failure told."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minions.hosts.checkout import Checkout
from minions.hosts.connection import Connection
from minions.hosts.faults import HostNotReady, SetupFailed
from minions.hosts.recipes import LOOKED_AT, Recipe, choose, decisive_line

SETUP_SECONDS = 3600.0
_MOST_FILE_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_TOOL_MISSING = 100
_FIRST_FAILED = 101
# With the second, `uv run` in a job finds what was installed, and does not make an environment of its own.
_OF_JOBS = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job needs around it to find what was installed. path: directories before the PATH."""

    path: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    installed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one recipe works on one host. stem: of its log and lock. mark: there once all commands were run."""

    worktree: str
    environment: str
    python: str
    stem: str
    mark: str

    def fill(self, text: str) -> str:
        for name in ("environment", "worktree", "python"):
            text = text.replace(f"{{{name}}}", getattr(self, name))
        return text


async def install(
    connection: Connection, checkout: Checkout, setup: Sequence[str] | None = None, *, seconds: float = SETUP_SECONDS
) -> Surroundings:
    """Install what the lock files of the worktree say, then run `setup` (or the host's own) in it.

    What was installed before for the same lock file and platform is used again. Returns what jobs need around them;
    `installed` names what was installed now; the rest is in WORKTREE.surroundings.json for the executor. Raises
    SetupFailed with the host, the command and the line of the log, HostNotReady when a tool is missing.
    """
    files = await _files(connection, checkout.directory)
    host = connection.host
    asked = {"place": host.state, "tools": ["uv"], "path": list(host.path)}
    has_uv = (await connection.request("facts", asked))[0]["tools"]["uv"] is not None
    around, shared = Surroundings(), None
    for recipe in choose(files, host.setup or setup, has_uv=has_uv):
        place = _place(connection, checkout, recipe)
        shared = place.environment if recipe.shared else shared
        filled = {name: place.fill(value) for name, value in recipe.variables.items()}
        made = await _make(
            connection, recipe, place, Surroundings(around.path, {**around.variables, **filled}), seconds
        )
        around = Surroundings(
            (place.fill(recipe.bin), *around.path) if recipe.bin else around.path,
            {**around.variables, **{name: value for name, value in filled.items() if name in _OF_JOBS}},
            (*around.installed, recipe.name) if made else around.installed,
        )
    if shared is not None:
        await connection.request("touch", {"path": shared})
    said = {"path": around.path, "variables": {**dict(host.environment), **around.variables}}
    await connection.request("write", {"path": f"{checkout.directory}.surroundings.json"}, json.dumps(said).encode())
    return around


def _place(connection: Connection, checkout: Checkout, recipe: Recipe) -> _Place:
    """One environment for all commits of the same lock file and platform, or the worktree's own."""
    python = connection.greeting.executable
    if not recipe.shared:
        stem = f"{checkout.directory}.{recipe.name}-{recipe.identity[:16]}"
        return _Place(checkout.directory, f"{checkout.directory}/.venv", python, stem, f"{stem}.done")
    home = checkout.directory.rpartition("/worktrees/")[0]
    platform = f"{connection.greeting.system}-{connection.greeting.machine}".lower()
    environment = f"{home}/environments/{recipe.identity[:16]}-{platform}"
    return _Place(checkout.directory, environment, python, environment, f"{environment}/.minions-done")


async def _make(connection: Connection, recipe: Recipe, place: _Place, around: Surroundings, seconds: float) -> bool:
    """Run the commands, unless a mark says that they were run to their ends before; whether they were run now.

    All of them in one shell: its lock keeps out whoever installs the same at the same time.
    """
    commands = [shlex.join(place.fill(word) for word in command) for command in recipe.commands]
    mark, log = place.mark, f"{place.stem}.log"
    script = [
        f"command -v {shlex.quote(place.fill(recipe.tool))} >/dev/null || exit {_TOOL_MISSING}",
        f": > {shlex.quote(log)}",
    ]
    for number, command in enumerate(commands, _FIRST_FAILED):
        script += [f"printf '%s\\n' {shlex.quote(f'$ {command}')}", f"{command} || exit {number}"]
    script.append(f": > {shlex.quote(mark)}")
    done = await connection.run(
        ["sh", "-c", "\n".join(script)],
        directory=place.worktree,
        environment=around.variables,
        path=around.path,
        timeout_seconds=seconds,
        log=log,
        lock=f"{place.stem}.lock",
        unless=mark,
    )
    name = connection.host.name
    if done.code == _TOOL_MISSING:
        raise HostNotReady(f"{name}: {recipe.tool} is not installed", hint=f"{recipe.name} needs it there.")
    if done.code:
        at = done.code - _FIRST_FAILED
        command = commands[at] if 0 <= at < len(commands) else recipe.name
        why = f"it was not done after {seconds:g} seconds" if done.late else decisive_line(done.stderr)
        raise SetupFailed(f"{name}: `{command}` failed: {why}", hint=f"Its whole log is {log} on {name}.")
    return not done.skipped


async def _files(connection: Connection, directory: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    paths = [f"{directory}/{name}" for name in LOOKED_AT]
    described = (await connection.request("describe", {"paths": paths}))[0]["found"]
    for name, path, about in zip(LOOKED_AT, paths, described, strict=True):
        if about is None or about["kind"] != "file":
            continue
        if about["size"] > _MOST_FILE_BYTES:
            raise SetupFailed(f"{connection.host.name}: {name} is larger than {_MOST_FILE_BYTES >> 20} MiB")
        content = b""
        while len(content) < about["size"]:
            fields = {"path": path, "offset": len(content), "length": _PIECE_BYTES}
            _, piece = await connection.request("get", fields)
            if not piece:
                break
            content += piece
        found[name] = content
    return found
