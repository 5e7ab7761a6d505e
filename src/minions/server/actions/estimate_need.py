"""Estimating: how much memory a task's model needs, from the best source there is."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import AccessDenied, MinionsError
from minions.domain.matching import MEMORY_CLASSES_MB
from minions.domain.model_need import Weights, explain_need, need_mb, weights_among, weights_from_name
from minions.domain.models import EngineName, ModelReference
from minions.domain.specification import CommandParameters, Parameters
from minions.objects.closed import ClosedPlaces
from minions.server.deployment import Deployment
from minions.store import executors, tasks

_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Need:
    """text: the number and where it comes from, for people."""

    memory_mb: int
    text: str


async def estimate_need(
    deployment: Deployment,
    model: ModelReference,
    engine: EngineName,
    parameters: Parameters,
    given_mb: int | None,
    *,
    may_look: bool,
) -> Need:
    """What the request says counts; else what lies in the object store, on this machine, what executors measured or
    have, what the model's name tells, and at last a default. may_look: whether what lies on this machine may be told.
    Raises nothing: an estimate must not refuse a task."""
    if isinstance(parameters, CommandParameters):
        return Need(given_mb or MEMORY_CLASSES_MB[0], "" if given_mb is None else explain_need(given_mb, "request"))
    if given_mb is not None:
        return Need(given_mb, explain_need(given_mb, "request"))
    weights = await _weights(deployment, model, engine, may_look)
    needed = need_mb(engine, parameters, weights)
    return Need(needed, explain_need(needed, weights.known_from if weights is not None else "default"))


async def _weights(deployment: Deployment, model: ModelReference, engine: EngineName, may_look: bool) -> Weights | None:
    if model.source == "object":
        try:
            if found := weights_among(await deployment.inputs.model_sizes(model.location)):
                return Weights(found, "object")
        except (MinionsError, ValueError):
            pass  # a bucket that cannot be looked into says nothing; the executor that fetches it will
    here = may_look and model.source == "path" and deployment.settings.accepts_files
    if here and (found := await asyncio.to_thread(_bytes_at, Path(model.location), deployment.inputs.closed)):
        return Weights(found, "file")
    async with deployment.database.connection() as connection:
        if found := await tasks.measured_weights(connection, str(model)):
            return Weights(found, "measured")
        if found := await executors.cached_weights(connection, cached_name(model)):
            return Weights(found, "cached")
    return weights_from_name(model, engine)


def cached_name(model: ModelReference) -> str:
    """What executors call it in the list of what they have: without a revision, and with Ollama's default tag."""
    if model.source == "ollama":
        tagged = ":" in model.location.rpartition("/")[2]
        return f"ollama:{model.location}{'' if tagged else ':latest'}"
    return str(ModelReference(model.source, model.location, model.file))


def _bytes_at(path: Path, closed: ClosedPlaces) -> int:
    """What the executors of this machine would load; 0 when there is nothing."""
    try:
        closed.refuse(path)
        if path.is_file():
            return path.stat().st_size
        found: list[tuple[str, int]] = []
        for place, _, names in os.walk(path):
            found += [(name, (Path(place) / name).stat().st_size) for name in names]
            if len(found) > _MOST_FILES:
                return 0  # no model's folder
        return weights_among(found)
    except (OSError, AccessDenied):
        return 0
