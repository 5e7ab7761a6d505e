"""minions stop."""

from __future__ import annotations

import asyncio


def command() -> None:
    """End the run of this project, with all that runs for it here and on hosts. `minions run` goes on from there."""
    from minions.commands.output import to_stderr
    from minions.commands.project import here
    from minions.commands.running import stop_coordinator

    directory = here()
    running = directory.coordinator() is not None
    if running:
        stop_coordinator(directory)
    used = directory.hosts_used()
    if used:
        asyncio.run(_end_executors(used))
    elif not running:
        to_stderr("Nothing of this project runs.")


async def _end_executors(used: set[str]) -> None:
    """What a coordinator that was killed, or that could not reach a host, has left there. Raises what failed last."""
    from minions.commands.output import to_stderr
    from minions.commands.project import here
    from minions.domain.errors import MinionsError
    from minions.hosts.host_keeper import end_executor
    from minions.hosts.project_file import read_hosts

    directory = here()
    hosts = {host.name: host for host in read_hosts(directory.root)}
    failed: MinionsError | None = None
    for name in sorted(used):
        if name not in hosts:
            to_stderr(f"{name}: minions.toml does not name it any more, so its executor could not be ended.")
            continue
        try:
            how = await end_executor(hosts[name], directory)
        except MinionsError as error:
            failed = error
            to_stderr(("■ ", "red"), error.message)
            continue
        to_stderr(f"{name}: {'no executor was left' if how == 'not_running' else 'its executor was ended'}.")
    if failed is not None:
        raise failed
