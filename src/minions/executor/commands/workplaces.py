"""Workplaces: where the jobs of a commit run."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from minions.domain.errors import MinionsError
from minions.executor.commands.messages import Assigned

_GIT_SECONDS = 1800.0


class SetupFailed(MinionsError):
    """The commit cannot be run on this host."""

    code = "setup_failed"
    hint = "Mend what is named, on that host or in the project; the jobs wait."


class NotHere(MinionsError):
    """The commit is not on this host yet."""

    code = "not_here"
    hint = "`minions run` brings it; it must be running, where the project is."


@dataclass(frozen=True, slots=True)
class Checkout:
    """What jobs are run from. project_key: the same for every clone. setup_sha256: of what makes a worktree ready."""

    project_key: str
    commit: str
    patch_sha256: str | None = None
    setup_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Workplace:
    """A worktree that is ready. environment: what jobs get there, besides their own. held: kept open while it is used,
    so that nobody removes it."""

    directory: Path
    environment: Mapping[str, str]
    held: IO[bytes] | None = field(default=None, compare=False)


Prepare = Callable[[Checkout], Awaitable[Workplace]]
"""Raises SetupFailed, which is an attempt, and NotHere, which is none."""


def checkout_of(assigned: Assigned) -> Checkout:
    """What a job is run from."""
    return Checkout(assigned.project_key, assigned.commit, assigned.patch_sha256, assigned.setup_sha256)


def worktree_name(checkout: Checkout) -> str:
    """What its worktree is called."""
    return checkout.commit + (f"-{checkout.patch_sha256[:12]}" if checkout.patch_sha256 else "")


class Worktrees:
    """Finds worktrees that the coordinator has made here: HOME/projects/KEY/worktrees/NAME. NAME.lock is held while one
    is used, and NAME.surroundings.json, written once all is installed, says what its jobs need."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def __call__(self, checkout: Checkout) -> Workplace:
        directory = self._home / "projects" / checkout.project_key / "worktrees" / worktree_name(checkout)
        return await asyncio.to_thread(self._found, directory)

    def _found(self, directory: Path) -> Workplace:
        surroundings = directory.with_name(f"{directory.name}.surroundings.json")
        if not surroundings.exists():
            raise NotHere(f"commit {directory.name[:12]} is not ready on this host")
        lock = directory.with_name(f"{directory.name}.lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not directory.is_dir():
                raise NotHere(f"commit {directory.name[:12]} was removed from this host")
            found: Any = json.loads(surroundings.read_text("utf-8"))
            variables = cast("dict[str, str]", found["variables"])
            path = cast("list[str]", found["path"])
            os.utime(directory)  # those used longest ago are pruned
            before = os.environ.get("PATH", os.defpath)
            return Workplace(directory, {**variables, "PATH": os.pathsep.join([*path, before])}, lock)
        except BaseException:
            lock.close()
            raise


class GitWorktrees:
    """Makes worktrees of a repository of this machine, one for each commit. patches: DIRECTORY/SHA256.patch."""

    def __init__(self, repository: Path, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._repository = repository
        self._directory = directory
        self._environment = environment or {}
        self._making = asyncio.Lock()

    async def __call__(self, checkout: Checkout) -> Workplace:
        target = self._directory / worktree_name(checkout)
        async with self._making:
            if not (target / ".git").exists():
                await self._make(checkout, target)
        found = (await self._git(target, "rev-parse", "HEAD")).strip()
        if found != checkout.commit:
            raise SetupFailed(f"{target} is at {found[:12]}, not at {checkout.commit[:12]}: remove it")
        return Workplace(target, self._environment)

    async def _make(self, checkout: Checkout, target: Path) -> None:
        new = target.with_name(f".new-{target.name}")
        await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
        await self._git(self._repository, "worktree", "prune")
        await self._git(
            self._repository, "worktree", "add", "--quiet", "--detach", "--force", str(new), checkout.commit
        )
        if checkout.patch_sha256 is not None:
            patch = self._directory / f"{checkout.patch_sha256}.patch"
            await self._git(new, "apply", "--binary", "--whitespace=nowarn", str(patch))
        await self._git(self._repository, "worktree", "move", str(new), str(target))

    async def _git(self, place: Path, *words: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        process = await asyncio.create_subprocess_exec(
            "git",
            "-C",
            str(place),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, "LC_ALL": "C"},
        )
        async with asyncio.timeout(_GIT_SECONDS):
            out, err = await process.communicate()
        if process.returncode:
            last = err.decode(errors="replace").strip().splitlines()[-1:] or [f"code {process.returncode}"]
            raise SetupFailed(f"git {words[0]} failed in {place}: {last[0]}")
        return out.decode(errors="replace")
