"""The commands that run one job again by hand, for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from minions.domain.jobs import printable
from minions.hosts import project
from minions.hosts.inventory import Host
from minions.hosts.recipes import LOOKED_AT, Recipe, choose
from minions.hosts.run_directory import Run


async def installed(root: Path, run: Run) -> list[Recipe]:
    """What the lock files of the run's commit install before its jobs. Raises CheckoutRefused."""
    has = (await project.tracked(root, run.commit)).intersection(LOOKED_AT)
    files = {name: await project.must(root, "show", f"{run.commit}:{name}") for name in sorted(has)}
    return choose(files, None, has_uv=True)


def replay(
    run: Run,
    place: int,
    root: Path,
    patch: Path | None,
    *,
    recipes: Sequence[Recipe] = (),
    host: Host | None = None,
) -> str:
    """A script that may be pasted anywhere: a worktree of the commit, the changes on top, the inputs, the command.

    It stops where something fails. recipes, host: what else the job had around it where it ran, told as comments. Pure.
    """
    job, identity = run.jobs[place]
    tree = root.parent / f"replay-{identity[:12]}"
    steps = [_words("git", "-C", root, "worktree", "add", "--detach", tree, run.commit)]
    if patch is not None:
        steps.append(_words("git", "-C", tree, "apply", "--binary", "--whitespace=nowarn", patch))
    for each in run.inputs:
        if not each.in_commit:
            target = tree / each.path
            steps += [_words("mkdir", "-p", target.parent), _words("cp", root / each.path, target)]
    steps.append(_words("cd", tree))
    setup = (host.setup if host is not None else None) or run.setup
    if setup is not None:
        steps.append(_words(*setup))
    folder = job.output.rpartition("/")[0]
    if folder:
        steps.append(_words("mkdir", "-p", folder))
    chosen = _assignments(job.environment)
    steps.append(_words("env", *chosen, *job.argv) if chosen else _words(*job.argv))
    return "\n".join([*_comments(tree, root, recipes, host), " &&\n".join(steps)])


def _comments(tree: Path, root: Path, recipes: Sequence[Recipe], host: Host | None) -> list[str]:
    """Without ; and quotes of their own: a zsh that was not told better takes them for commands."""
    said = [f"# to do it once more, first: {_words('git', '-C', root, 'worktree', 'remove', '--force', tree)}"]
    for recipe in recipes:
        stands = {"{environment}": ".venv", "{worktree}": ".", "{python}": "python3"}
        for command in recipe.commands:
            words = [_replaced(word, stands) for word in command]
            said.append(f"# {recipe.name} was installed before, in the worktree: {_words(*words)}")
    if host is not None and host.environment:
        said.append(f"# {host.name} had in its environment: {_words(*_assignments(dict(host.environment)))}")
    if host is not None and host.path:
        said.append(f"# {host.name} had before its PATH: {_words(*host.path)}")
    return said


def _replaced(word: str, stands: Mapping[str, str]) -> str:
    for name, value in stands.items():
        word = word.replace(name, value)
    return word


def _assignments(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _words(*words: str | Path) -> str:
    return printable(shlex.join(str(word) for word in words))
