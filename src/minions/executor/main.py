"""Running an executor process until it is told to stop."""

from __future__ import annotations

from minions.executor.settings import ExecutorSettings


async def run_executor(settings: ExecutorSettings) -> None:
    """Work until SIGTERM or SIGINT; then release what is held within two seconds."""
    raise SystemExit(f"{settings.name} cannot run yet")
