"""minions tasks resume."""

from __future__ import annotations

from minions.commands import options


def command(
    task: options.TaskReferences,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Let a paused task go on."""
    from minions.commands.steering import steer

    steer(options.client(server, token_file), task, "resume", "Resumed", json, quiet)
