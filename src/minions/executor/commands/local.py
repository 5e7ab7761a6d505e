"""An executor of commands on the machine where the repository is."""

from __future__ import annotations

from pathlib import Path

from minions.executor.commands.main import run_commands
from minions.executor.commands.settings import CommandSettings
from minions.executor.commands.workplaces import GitWorktrees
from minions.runtime.version import VERSION


async def run_local_commands(
    server: str, token: str, name: str, owner: str, state: Path, slots: int, repository: Path
) -> None:
    """Run commands in worktrees of the repository, one for each commit, under the state directory."""
    settings = CommandSettings(server, token, name, state, slots, owner=owner, version=VERSION)
    await run_commands(settings, GitWorktrees(repository, state / "worktrees"))
