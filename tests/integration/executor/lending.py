"""An owner who comes and goes on command, on top of an executor of the tests."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from minions.domain.policy import DEDICATED, Mode, OwnerPolicy
from minions.executor.facts_file import MachineOfFile
from minions.executor.keep_awake import KeepAwake
from minions.executor.offering import Flags
from minions.executor.owner import Owner
from minions.executor.places import ORDER_FILE
from minions.wire.executor import Offer
from tests.integration.executor.deployment import Rig, Running, eventually

AWAY: dict[str, Any] = {"idle_seconds": 3600.0, "on_battery": False, "machine": "Mac"}
HERE = AWAY | {"idle_seconds": 0.0}
LENT = replace(
    DEDICATED,
    mode=Mode.AUTO,
    hysteresis_seconds=0.0,
    start_after_idle_minutes=0.03,
    continue_after_idle_minutes=0.03,
    busy_within_seconds=1.0,
)
TAKES = Offer(kinds=["embed", "complete"], memory_mb=100_000)


def write_facts(file: Path, facts: dict[str, Any]) -> None:
    """Replaced whole, as the reader wants it."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps(facts))
    os.replace(unfinished, file)


@dataclass(slots=True)
class Lent:
    """An executor whose owner is scripted. policy: in force from the next look on."""

    running: Running
    owner: Owner
    facts_file: Path
    machine: MachineOfFile
    policy: OwnerPolicy
    problem: str = ""

    def facts(self, facts: dict[str, Any]) -> float:
        """What the machine is like from now on. Returns the moment."""
        write_facts(self.facts_file, facts)
        return time.monotonic()

    @property
    def state(self) -> str:
        """What was decided last."""
        return self.owner.seen.decision.state.value if self.owner.seen is not None else ""

    def engine(self) -> psutil.Process:
        """The engine's process, which must be there."""
        pid = self.running.bench.engine_pid
        assert pid is not None
        return psutil.Process(pid)

    async def until(self, *states: str) -> None:
        await eventually(lambda: self.state in states)


@asynccontextmanager
async def lent(
    deployed: Rig, *, policy: OwnerPolicy = LENT, facts: dict[str, Any] = AWAY, **given: Any
) -> AsyncGenerator[Lent]:
    """An executor that heeds its owner; stopped at the end of the block."""
    async with deployed.executor(**given) as running:
        file = running.state / "facts.json"
        write_facts(file, facts)

        def in_force() -> tuple[OwnerPolicy, str]:
            return machine.policy, machine.problem

        scripted = MachineOfFile(file)
        owner = Owner(
            running.agent,
            running.bench,
            machine=scripted,
            policy=in_force,
            order_file=running.state / ORDER_FILE,
            flags=Flags(default_memory_mb=100_000),
            registered=TAKES,
            keep_awake=KeepAwake(["sleep", "60"]),
        )
        machine = Lent(running, owner, file, scripted, policy)
        looking = asyncio.create_task(owner.run())
        try:
            yield machine
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
