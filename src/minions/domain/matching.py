"""Matching: which lanes an executor can serve, with the reasons when it cannot."""

from __future__ import annotations

from dataclasses import dataclass

# Steps of a half, so that what needs 17 GB is not kept from a Mac that has 24.
MEMORY_CLASSES_MB = tuple(sorted({size << step for step in range(15) for size in (1024, 1536)}))
MOST_MEMORY_MB = MEMORY_CLASSES_MB[-1]  # 24 TB, which no machine lends to one model


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
    """The smallest class that holds `need_mb`, so that few distinct lanes exist; beyond the last, the need itself."""
    return next((size for size in MEMORY_CLASSES_MB if size >= need_mb), need_mb)


@dataclass(frozen=True, slots=True)
class Lack:
    """What an executor lacks for a lane. here: said to the executor; there: said of the executors to whoever waits."""

    here: str
    there: str


def lacks(lane: Lane, offer: Capabilities) -> list[Lack]:
    """Why this executor cannot serve the lane; empty when it can."""
    found: list[Lack] = []
    if lane.kind not in offer.kinds:
        found.append(Lack(f"this executor does not take {lane.kind} work", f"none of them takes {lane.kind} work"))
    if lane.engine not in offer.engines:
        need = f"the engine {lane.engine}"
        found.append(Lack(f"need {need}, which is not installed here", f"it needs {need}, which none of them has"))
    need = gigabytes(lane.memory_mb)
    if offer.memory_mb is None:
        unknown = "memory could not be read"
        found.append(Lack(f"need {need}, and this machine's {unknown}", f"it needs {need}, and their {unknown}"))
    elif lane.memory_mb > offer.memory_mb:
        have = gigabytes(offer.memory_mb)
        found.append(Lack(f"need {need}, you have {have}", f"it needs {need}, and the largest of them has {have}"))
    return found


def objections(lane: Lane, offer: Capabilities) -> list[str]:
    """The same as the executor is told it."""
    return [lack.here for lack in lacks(lane, offer)]


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
