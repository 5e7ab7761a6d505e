"""Pinning a run: which commit, which changes, which inputs. What is pinned stays the same while the tree goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import FieldError, MinionsError
from minions.domain.jobs import Pinned, job_id
from minions.domain.output_paths import folders_of, taken_errors
from minions.formats.durable import replace_durably
from minions.hosts import project
from minions.hosts.faults import CheckoutRefused
from minions.hosts.project import Patch
from minions.hosts.project_file import FILE, RunTable, refused, select_jobs
from minions.hosts.run_directory import InputFile, Run, RunDirectory
from minions.hosts.transfer import sha256_of

_SHOWN = 20


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
    if reasons := await project.objections(root, commit, whole_history=False):
        raise CheckoutRefused(f"commit {commit[:12]} cannot be brought to any host: {'; '.join(reasons)}")
    tracked = await project.tracked(root, commit)
    outputs = {job.output for job in table.jobs}
    said = f"is in commit {commit[:12]}; write elsewhere, or `git rm --cached` it and commit that"
    if errors := taken_errors((job.output for job in table.jobs), dict.fromkeys(tracked, said)):
        raise refused(errors)
    made = Made(outputs | await asyncio.to_thread(directory.outputs), merged_paths(table))
    patch = await _patch(root, commit, table, tracked, made, dirty=dirty)
    if patch is not None:
        await asyncio.to_thread(_keep, directory.patch(patch.sha256), patch.content)
    inputs = await _inputs(root, tracked, table.inputs)
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
    await asyncio.to_thread(directory.note_outputs, outputs)
    return PinnedRun(run, patch)


@dataclass(frozen=True, slots=True)
class Made:
    """Where runs write. outputs: of this run and of earlier ones. merged: what the merge command names among them."""

    outputs: Collection[str]
    merged: Collection[str]

    def holds(self, path: str) -> bool:
        """Whether it is one of them, or lies in one."""
        name = path.rstrip("/")
        return any(each in self.outputs or each in self.merged for each in (*folders_of(name), name))


def merged_paths(table: RunTable) -> set[str]:
    """What the command of a merge names in the directory of the outputs: it writes there, and no job reads it."""
    within = f"{table.output_directory}/"
    words = (word.rpartition("=")[2].removeprefix("./").rstrip("/") for word in table.merge or ())
    return {word for word in words if table.output_directory and word.startswith(within)}


async def _patch(
    root: Path, commit: str, table: RunTable, tracked: Collection[str], made: Made, *, dirty: bool
) -> Patch | None:
    """What the tree has beyond the commit, and beyond what a run brings with it or makes. Raises DirtyTree."""
    apart = {path for path in table.inputs if path not in tracked}  # a tracked one that was changed is a change
    apart |= {FILE, *([table.jobs_file] if table.jobs_file else [])}  # what they say is in the jobs
    found = await project.changes(root, commit)
    left = [
        path
        for path in (*found.changed, *found.untracked)
        if path not in apart and (path in tracked or not made.holds(path))
    ]
    if not left:
        return None
    if not dirty:
        names = "".join(f"\n  {path}" for path in left[:_SHOWN])
        more = f"\n  and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise DirtyTree(f"the tree differs from commit {commit[:12]}:{names}{more}")
    return await project.dirty_patch(root, commit, left)


async def _inputs(root: Path, tracked: Collection[str], paths: Sequence[str]) -> list[InputFile]:
    """Raises ValidationFailed with all inputs that cannot be read."""
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
        raise refused(errors)
    return found


def _keep(target: Path, content: bytes) -> None:
    target.parent.mkdir(exist_ok=True)
    temporary = target.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(content)
        replace_durably(file, temporary, target)
