"""Pinning a run: which commit, which changes, which inputs. What is pinned stays the same while the tree goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import FieldError, MinionsError, ValidationFailed
from minions.domain.jobs import Pinned, job_id
from minions.formats.durable import replace_durably
from minions.hosts import project
from minions.hosts.project import Patch
from minions.hosts.project_file import FILE, RunTable, select_jobs
from minions.hosts.run_directory import InputFile, Run, RunDirectory
from minions.hosts.transfer import sha256_of

_SHOWN = 20
_MOST_PATHS = 500  # that git is told one by one


class DirtyTree(MinionsError):
    """The tree is not as committed."""

    code = "dirty_tree"
    hint = "Commit them, ignore them in .gitignore, or run with --dirty, which records them as a patch."


@dataclass(frozen=True, slots=True)
class PinnedRun:
    """A run, and what its tree has beyond its commit."""

    run: Run
    patch: Patch | None


async def pin_run(directory: RunDirectory, table: RunTable, *, dirty: bool, selection: str | None) -> PinnedRun:
    """Pin what the project is now. Raises DirtyTree, CheckoutRefused, ValidationFailed."""
    root = directory.root
    commit = await project.pin(root)
    patch = await _patch(root, commit, table, dirty)
    if patch is not None:
        await asyncio.to_thread(_keep, directory.patch(patch.sha256), patch.content)
    inputs = await _inputs(root, commit, table.inputs)
    pinned = Pinned(commit, patch.sha256 if patch else None, {each.path: each.sha256 for each in inputs})
    selected = select_jobs(selection, len(table.jobs)) if selection is not None else range(len(table.jobs))
    run = Run(
        commit=commit,
        patch_sha256=pinned.patch_sha256,
        project_key=await project.project_key(root, commit),
        inputs=tuple(inputs),
        jobs=tuple((job, job_id(pinned, job)) for job in table.jobs),
        command=table.command,
        setup=table.setup,
        timeout_seconds=table.timeout_seconds,
        retries=table.retries,
        idempotent=table.idempotent,
        second_start=table.second_start,
        selected=tuple(selected),
    )
    return PinnedRun(run, patch)


async def _patch(root: Path, commit: str, table: RunTable, dirty: bool) -> Patch | None:
    """What the tree has beyond the commit, and beyond what a run brings with it or makes. Raises DirtyTree."""
    tracked = await _tracked(root, commit, set(table.inputs))
    apart = {path for path in table.inputs if path not in tracked}  # a tracked one that was changed is a change
    apart |= {FILE, *([table.jobs_file] if table.jobs_file else [])}  # what they say is in the jobs
    found = await project.changes(root, commit)
    made = [path for path in found.untracked if _is_made(path, table)]
    left = [path for path in (*found.changed, *found.untracked) if path not in apart and not _is_made(path, table)]
    if not left:
        return None
    if not dirty:
        names = "".join(f"\n  {path}" for path in left[:_SHOWN])
        more = f"\n  and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise DirtyTree(f"the tree differs from commit {commit[:12]}:{names}{more}")
    if len(made) > _MOST_PATHS:
        raise DirtyTree(
            f"there are {len(made):,} outputs that git neither has nor ignores",
            hint="Let the outputs have a directory of their own, or ignore them in .gitignore.",
        )
    without = [table.output_directory] if table.output_directory else made
    return await project.dirty_patch(root, commit, without=[*sorted(apart), *without])


def _is_made(path: str, table: RunTable) -> bool:
    """Whether it lies where outputs lie; what was merged from them lies there, too."""
    if table.output_directory:
        return path.startswith(f"{table.output_directory}/")
    return any(path == job.output or path.startswith(f"{job.output}/") for job in table.jobs)


async def _tracked(root: Path, commit: str, paths: set[str]) -> set[str]:
    if not paths:
        return set()
    listed = await project.must(root, "ls-tree", "-z", "--name-only", "--full-tree", commit, "--", *sorted(paths))
    return {name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name}


async def _inputs(root: Path, commit: str, paths: Sequence[str]) -> list[InputFile]:
    """Raises ValidationFailed with all inputs that cannot be read."""
    tracked = await _tracked(root, commit, set(paths))
    found: list[InputFile] = []
    errors: list[FieldError] = []
    for path in paths:
        place = root / path
        try:
            size = (await asyncio.to_thread(place.stat)).st_size
            found.append(InputFile(path, await asyncio.to_thread(sha256_of, place), size, path in tracked))
        except OSError as error:
            errors.append(FieldError(FILE, "bad_input", f"run.inputs: {path}: {(error.strerror or '').lower()}"))
            continue
        if size == 0 and path not in tracked:
            errors.append(FieldError(FILE, "bad_input", f"run.inputs: {path} is empty"))
    if errors:
        refused = ValidationFailed(errors)
        refused.advice = "Nothing was started."
        raise refused
    return found


def _keep(target: Path, content: bytes) -> None:
    target.parent.mkdir(exist_ok=True)
    temporary = target.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(content)
        replace_durably(file, temporary, target)
