"""Dashboards are what the code makes, and what Grafana takes: no Grafana can be had here to say so."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.shipped import DASHBOARDS, DEPLOY, NAMES, asked, load

ROOT = DEPLOY.parent
PANEL_TYPES = {"stat", "bargauge", "piechart", "timeseries", "table"}
MACROS = {"$__timeFilter", "$__timeFrom", "$__timeTo", "$__interval_ms"}
SOURCE = {"type": "grafana-postgresql-datasource", "uid": "minions-postgres"}


def test_what_is_shipped_is_what_the_code_makes(tmp_path: Path) -> None:
    """In a process of its own: the SDK warns of deprecation as soon as it is imported."""
    argv = [sys.executable, "-m", "deploy.grafana.generate", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    shipped = {file.name: file.read_text(encoding="utf-8") for file in DASHBOARDS.iterdir()}
    assert made == shipped, "run: make dashboards"
    assert set(shipped) == {f"{name}.json" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_is_one_that_grafana_takes(name: str) -> None:
    board = load(name)
    assert board["uid"] == f"minions-{name}"
    assert len(board["uid"]) <= 40
    assert board["title"]
    assert board["schemaVersion"] >= 39
    assert "id" not in board, "an id belongs to one Grafana"
    assert board["refresh"] == "5m", "many a dashboard is left open"
    assert not [link for link in board["links"] if "placement" in link], "links stand above the panels, not in a menu"
    assert [each["name"] for each in board["templating"]["list"]] == ["team", "project"]
    for variable in board["templating"]["list"]:
        assert (variable["type"], variable["multi"], variable["includeAll"]) == ("query", True, True)
        assert variable["current"]["value"] == ["$__all"]
        assert variable["datasource"] == SOURCE


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_ids_of_their_own_and_room(name: str) -> None:
    panels: list[dict[str, Any]] = load(name)["panels"]
    assert panels
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["w"] > 0
        assert place["h"] > 0
        assert 0 <= place["x"] <= 24 - place["w"], panel["title"]
        assert panel["type"] in PANEL_TYPES
        assert panel["datasource"] == SOURCE
        (target,) = panel["targets"]
        assert (target["refId"], target["rawQuery"], target["datasource"]) == ("A", True, SOURCE)
        assert (target["format"] == "time_series") == (panel["type"] == "timeseries")
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def _steps(thresholds: dict[str, Any]) -> list[tuple[float | None, str]]:
    return [(step["value"], step["color"]) for step in thresholds["steps"]]


def test_colours_mean_something() -> None:
    """Without thresholds of its own, whatever is above 80 is red."""
    levels: dict[tuple[str, str], list[tuple[float | None, str]]] = {}
    for name in NAMES:
        for panel in load(name)["panels"]:
            if panel["type"] not in ("stat", "bargauge"):
                continue
            levels[panel["title"], ""] = steps = _steps(panel["fieldConfig"]["defaults"]["thresholds"])
            assert steps[0] == (None, "text" if panel["type"] == "stat" else "blue"), panel["title"]
            for override in panel["fieldConfig"]["overrides"]:
                column = override["matcher"]["options"]
                assert f'"{column}"' in (sql := panel["targets"][0]["rawSql"]) or f" AS {column}" in sql, column
                for each in override["properties"]:
                    if each["id"] == "thresholds":
                        levels[panel["title"], column] = steps = _steps(each["value"])
                        assert [value for value, _ in steps[1:]] == sorted(
                            value for value, _ in steps[1:] if value is not None
                        )
    assert levels["Watchdog", "watchdogs at work"][1:] == [(0, "red"), (1, "green")]
    assert levels["Subtasks", "set aside"][1:] == [(1, "red")]
    assert levels["Tasks that ended", "failed"][1:] == [(1, "orange")]
    assert levels["Time to drain", ""][-1][1] == levels["Longest wait now", ""][-1][1] == "red"


def test_units_are_those_that_grafana_scales() -> None:
    units = {panel["title"]: panel["fieldConfig"]["defaults"].get("unit") for panel in load("throughput")["panels"]}
    assert (units["Rows by type"], units["Tokens by type"]) == ("rowsps", "count:tokens/s")
    (total, *_) = load("throughput")["panels"]
    bytes_ = [each for each in total["fieldConfig"]["overrides"] if each["matcher"]["options"] == "input bytes"]
    assert bytes_[0]["properties"] == [{"id": "unit", "value": "decbytes"}]


def test_what_grows_is_read_once() -> None:
    """Parts are most of what a dashboard reads."""
    for each in asked():
        assert len(re.findall(r"FROM grafana_part\b", each.sql)) <= 1, str(each)


def test_there_are_no_macros_but_those_that_the_data_source_knows() -> None:
    for each in asked():
        assert set(re.findall(r"\$__\w+", each.sql)) <= MACROS, str(each)
        assert set(re.findall(r"\$\{([^}]*)\}", each.sql)) <= {"team:sqlstring", "project:sqlstring"}, str(each)
        assert not re.search(r"\$(?!__)\w", each.sql), f"{each}: a variable without its format is put in unquoted"


def test_what_grows_is_asked_for_by_time() -> None:
    """The ledger and the samples hold everything that ever happened."""
    seen: set[str] = set()
    for each in asked():
        for view in re.findall(r"FROM (grafana_(?:part|ledger|failed_rows|sample))\b", each.sql):
            seen.add(view)
            limited = sum(map(each.sql.count, ("$__timeFilter(", "at > now() - interval", "WHERE at >= date_bin(")))
            limited += len(re.findall(r"AND at >= date_bin\(", each.sql))
            assert limited >= each.sql.count(f"FROM {view}"), str(each)
    assert len(seen) == 4


def test_what_grafana_is_given_names_what_is_shipped() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "minions.yaml").read_text())["datasources"]
    assert {"type": source["type"], "uid": source["uid"]} == SOURCE
    assert source["user"] == "minions_grafana"
    assert re.search(rf"CREATE ROLE {source['user']}\b", (DEPLOY / "postgres" / "grafana_role.sql").read_text())
    assert source["secureJsonData"]["password"].startswith("$"), "a password is no part of a repository"
    (alerting,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert (alerting["type"], alerting["uid"]) == ("prometheus", "minions-prometheus")
    assert alerting["jsonData"]["manageAlerts"], "else its rules are not in Grafana's list"
    assert [source["isDefault"], alerting["isDefault"]] == [True, False]
    (provider,) = yaml.safe_load((folder / "dashboards" / "minions.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    assert not provider["allowUiUpdates"]
