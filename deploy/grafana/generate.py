"""Writes the dashboards as the JSON that Grafana loads: `make dashboards`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from deploy.grafana.fleet import fleet
from deploy.grafana.panels import Panel
from deploy.grafana.query import data_source
from deploy.grafana.reliability import reliability
from deploy.grafana.throughput import throughput
from deploy.grafana.work import work

SHIPPED = Path(__file__).parent / "dashboards"


class _Made(NamedTuple):
    title: str
    said: str
    panels: Callable[[], list[Panel]]
    since: str = "now-24h"


DASHBOARDS: Mapping[str, _Made] = {
    "fleet": _Made("Minions · Fleet", "Executors: registered, online, busy, idle, and why not.", fleet, "now-6h"),
    "work": _Made("Minions · Work", "Tasks and what waits.", work),
    "throughput": _Made("Minions · Throughput", "Rows and tokens a second, by executor and model.", throughput),
    "reliability": _Made("Minions · Reliability", "Releases, attempts, and failures by code.", reliability),
}


def build(name: str) -> str:
    """One dashboard as JSON. Its uid is fixed, so that links to it stay."""
    made = DASHBOARDS[name]
    board = builders.Dashboard(made.title).uid(f"minions-{name}").description(made.said).tags(["minions"])
    board = board.time(made.since, "now").refresh("5m").timezone("browser").readonly()
    board = board.with_variable(_choice("team", "SELECT DISTINCT team FROM grafana_task ORDER BY team"))
    board = board.with_variable(
        _choice(
            "project",
            "SELECT DISTINCT project FROM grafana_task"
            " WHERE team = ANY (ARRAY[${team:sqlstring}]::text[]) ORDER BY project",
        )
    )
    board = board.link(_link())
    for number, panel in enumerate(made.panels(), start=1):
        board = board.with_panel(panel.id(number))
    document = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for link in document["links"]:
        del link["placement"]  # the SDK hides every link in the menu of the controls
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _choice(name: str, sql: str) -> builders.QueryVariable:
    """Several may be chosen; all of them at first. `All` stands for each of them by name, those of today."""
    everything = models.VariableOption(selected=True, text=["All"], value=["$__all"])
    chosen = builders.QueryVariable(name).label(name.capitalize()).datasource(data_source()).query(sql)
    chosen = chosen.definition(sql).multi(True).include_all(True).current(everything)
    return chosen.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)


def _link() -> builders.DashboardLink:
    link = builders.DashboardLink("Minions").type(models.DashboardLinkType.DASHBOARDS).tags(["minions"])
    return link.include_vars(True).keep_time(True)


def main(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        (folder / f"{name}.json").write_text(build(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)
