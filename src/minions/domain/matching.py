"""Matching: which lanes an executor can serve, with the reasons when it cannot."""

from __future__ import annotations

from dataclasses import dataclass

# Steps of a half, so that what needs 17 GB is not kept from a Mac that has 24.
MEMORY_CLASSES_MB = tuple(sorted({size << step for step in range(10) for size in (1024, 1536)}))


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """What a task needs of an executor; tasks with equal needs share a lane. Its key is stored with every range."""

    kind: str
    engine: str
    memory_mb: int

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.engine}/{self.memory_mb}"

    @classmethod
    def parse(cls, key: str) -> Lane:
        kind, engine, memory = key.split("/")
        return cls(kind, engine, int(memory))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an executor offers. memory_mb: what a model may use; None when it could not be read. teams: None for all."""

    kinds: frozenset[str]
    engines: frozenset[str]
    memory_mb: int | None
    teams: frozenset[str] | None = None

    def serves(self, team: str) -> bool:
        """Whether its owner lends it to this team."""
        return self.teams is None or team in self.teams


def memory_class(need_mb: int) -> int:
    """The smallest class that holds `need_mb`, so that few distinct lanes exist."""
    return next((size for size in MEMORY_CLASSES_MB if size >= need_mb), MEMORY_CLASSES_MB[-1])


def objections(lane: Lane, offer: Capabilities) -> list[str]:
    """Why this executor cannot serve the lane; empty when it can."""
    found: list[str] = []
    if lane.kind not in offer.kinds:
        found.append(f"this executor does not take {lane.kind} work")
    if lane.engine not in offer.engines:
        found.append(f"need the engine {lane.engine}, which is not installed here")
    if offer.memory_mb is None:
        found.append(f"need {gigabytes(lane.memory_mb)}, and this machine's memory could not be read")
    elif lane.memory_mb > offer.memory_mb:
        found.append(f"need {gigabytes(lane.memory_mb)}, you have {gigabytes(offer.memory_mb)}")
    return found


def explain(waiting: dict[Lane, int], offer: Capabilities) -> list[str]:
    """One sentence for each lane that is waiting and cannot run here: `2 tasks need 20 GB, you have 16 GB`."""
    said: list[str] = []
    for lane, tasks in sorted(waiting.items()):
        found = objections(lane, offer)
        if found:
            noun = "task" if tasks == 1 else "tasks"
            said.append(f"{tasks} {noun}: {'; '.join(found)}")
    return said


def gigabytes(megabytes: int) -> str:
    """Rounded down, so that what is a little too small never reads as large enough."""
    return f"{megabytes * 10 // 1024 / 10:g} GB" if megabytes >= 1024 else f"{megabytes} MB"
