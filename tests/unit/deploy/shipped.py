"""The dashboards as they are shipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
NAMES = ("fleet", "reliability", "throughput", "work")


@dataclass(frozen=True, slots=True)
class Asked:
    """A panel's only query."""

    dashboard: str
    title: str
    type: str
    format: str
    sql: str

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.title}"


def load(name: str) -> dict[str, Any]:
    return json.loads((DASHBOARDS / f"{name}.json").read_text(encoding="utf-8"))


def asked() -> Iterator[Asked]:
    """Every query of every panel."""
    for name in NAMES:
        for panel in load(name)["panels"]:
            (target,) = panel["targets"]
            yield Asked(name, panel["title"], panel["type"], target["format"], target["rawSql"])


def variables() -> list[tuple[str, str, str]]:
    """(dashboard, variable, its statement)."""
    return [(name, each["name"], each["query"]) for name in NAMES for each in load(name)["templating"]["list"]]
