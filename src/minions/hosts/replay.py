"""The commands that run one job again by hand, for a shell. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path

from minions.hosts.run_directory import Run


def replay(run: Run, place: int, patch: Path | None) -> str:
    """A script for the project's directory: a worktree of the commit, the changes on top, the inputs, the command."""
    job, _ = run.jobs[place]
    tree = f"../replay-{run.commit[:12]}"
    lines = [f"git worktree add --detach {shlex.quote(tree)} {run.commit}"]
    if patch is not None:
        lines.append(f"git -C {shlex.quote(tree)} apply --binary {shlex.quote(str(patch))}")
    for each in run.inputs:
        if not each.in_commit:
            target = shlex.quote(f"{tree}/{each.path}")
            lines.append(f"mkdir -p $(dirname {target}) && cp {shlex.quote(each.path)} {target}")
    lines.append(f"cd {shlex.quote(tree)}")
    if run.setup is not None:
        lines.append(shlex.join(run.setup))
    folder = job.output.rpartition("/")[0]
    if folder:
        lines.append(f"mkdir -p {shlex.quote(folder)}")
    chosen = "".join(f"{shlex.quote(f'{name}={value}')} " for name, value in job.environment.items())
    lines.append(f"{f'env {chosen}' if chosen else ''}{shlex.join(job.argv)}")
    return "\n".join(lines)
