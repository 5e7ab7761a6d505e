"""Models of teams: which models people are told of who reach some teams only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from minions.domain.models import parse_model
from minions.server.actions.estimate_need import cached_name
from minions.store import browsing
from minions.store.database import Connection


async def models_of(connection: Connection, teams: Sequence[str] | None) -> frozenset[str] | None:
    """Models that the latest tasks of these teams used, as executors call what they hold; None, for all teams: any."""
    if teams is None:
        return None
    return frozenset(cached_name(parse_model(model)) for model in await browsing.models_of_teams(connection, teams))


def held_models(device: Mapping[str, Any]) -> list[str]:
    """Names of the models that an executor says it holds; pure."""
    return [name for name in map(_name, _listed(device)) if name]


def device_for(device: Mapping[str, Any], models: Collection[str] | None) -> dict[str, Any]:
    """What an executor says of its machine, with no other models than these (None: any); pure."""
    if models is None:
        return dict(device)
    kept = [each for each in _listed(device) if _name(each) in models]
    rest = {name: value for name, value in device.items() if not name.startswith("models")}
    return {**rest, "models": kept} if "models" in device else rest


def _listed(device: Mapping[str, Any]) -> list[Any]:
    """What it says of its machine is free in form."""
    listed = device.get("models")
    return cast("list[Any]", listed) if isinstance(listed, list) else []


def _name(model: Any) -> str:
    if isinstance(model, dict):
        model = cast("dict[str, Any]", model).get("model")
    return model if isinstance(model, str) else ""
