"""A session: one registration of the executor, and what is under way in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx

from minions.executor.hearing import Hearing
from minions.executor.run_subtask import SubtaskRun
from minions.wire.executor import RegisterAnswer

Run = tuple[SubtaskRun, "asyncio.Task[None]"]


@dataclass(slots=True)
class Session:
    """reader: reads the inputs of all subtasks, in threads. ending: what was stopped and is still owned: it is listed
    as held until it was given back, or the server would take it for one that this executor never heard of.
    hearing: knows which answers are on their way."""

    answer: RegisterAnswer
    reader: httpx.Client
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    ending: dict[str, SubtaskRun] = field(default_factory=dict[str, SubtaskRun])
    hearing: Hearing = field(default_factory=Hearing)

    def holds(self) -> list[str]:
        """Every acquirement that this executor knows it has."""
        return [*self.runs, *self.ending]

    def all_runs(self) -> dict[str, SubtaskRun]:
        """Those under way and those that end."""
        return {acquirement: run for acquirement, (run, _) in self.runs.items()} | self.ending
