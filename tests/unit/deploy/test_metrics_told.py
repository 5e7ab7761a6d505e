"""What people read about metrics, and what alerts ask for, are metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from minions.server.counters import Counters
from minions.server.metrics import ready_metrics, server_metrics, standing_metrics
from minions.store.standing import Group, Standing
from minions.watchdog.metrics import WatchdogMetrics
from tests.unit.deploy.shipped import DEPLOY

_OPERATIONS = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
_SCENARIOS = Path(__file__).with_name("alerts_test.yml")
_SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"], "gauge": [""]}


def _existing() -> dict[str, list[str]]:
    """Names as they are written in queries, with their labels."""
    counters = Counters()
    counters.released["executor"] = counters.lost["executor_restarted"] = counters.faults["engine_failed"] = 1
    counters.latencies("GET", "/healthz", 200).add(0.1)
    ready = Group("queued", "team", "embed", "ready")
    groups = [ready, Group("acquired", "team", "embed", ""), Group("task", "team", "embed", "running")]
    standing = Standing(dict.fromkeys(groups, 1), {ready: 1.0})
    watchdog = WatchdogMetrics()
    watchdog.pass_ended("prune")
    watchdog.pass_failed("prune")
    families = [
        *server_metrics(counters, {"splitter": 0}, set()),
        *ready_metrics({"database": True}),
        *standing_metrics(standing, watched=True),
        *(family for family in watchdog.registry.collect() if family.name.startswith("minions_")),
    ]
    found: dict[str, list[str]] = {}
    for family in families:
        assert family.samples, family.name
        labels = [label for label in family.samples[0].labels if label != "le"]
        for suffix in _SUFFIXES[family.type]:
            found[f"{family.name}{suffix}"] = labels
    return found


def test_names_follow_the_conventions() -> None:
    for name in _existing():
        assert re.fullmatch(r"minions_[a-z0-9]+(_[a-z0-9]+)*", name), name
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb)(_|$)", name), f"{name}: base units"


def test_every_metric_is_in_the_table_and_every_entry_exists() -> None:
    told = {
        match[1]: re.findall(r"`(\w+)`", match[2])
        for match in re.finditer(r"^\| `(minions_\w+)` \|([^|]*)\|", _OPERATIONS, re.MULTILINE)
    }
    existing = {name: labels for name, labels in _existing().items() if not name.endswith(("_bucket", "_sum"))}
    existing = {name.removesuffix("_count"): labels for name, labels in existing.items()}
    assert told == existing


def _rules() -> list[dict[str, Any]]:
    return yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


def _unknown(text: str) -> list[str]:
    """What a query or a series asks for and nobody serves: metrics, and labels that Prometheus does not add."""
    existing = _existing()
    found: list[str] = []
    for name, selector in re.findall(r"\b(minions_\w+)(?:\{([^}]*)\})?", text):
        labels = set(re.findall(r"(\w+)(?:=|=~|!=)\"", selector)) - {"instance"}
        found += [name] if name not in existing else sorted(labels - set(existing[name]))
    return found


def test_alerts_ask_for_metrics_and_labels_that_exist() -> None:
    rules = _rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert "minions_" in rule["expr"] or rule["expr"].startswith("up{"), rule["alert"]
        assert not _unknown(rule["expr"]), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]


def test_what_can_go_wrong_has_an_alert() -> None:
    """A metric that says no, or counts failures, and that no rule reads is seen by nobody."""
    asked = " ".join(rule["expr"] for rule in _rules())
    silent = {"minions_watchdog_active", "minions_watchdog_subtasks_lost_total"}  # one stands by; executors come and go
    told = [name for name in _existing() if re.search(r"_(up|ready|active|restarts_total|failures_total)$", name)]
    assert len(told) >= 6
    assert [name for name in told if name not in asked] == [name for name in told if name in silent]
    for job in ("minions-server", "minions-watchdog"):
        assert f'up{{job="{job}"}}' in asked


def test_every_alert_is_tried_both_ways() -> None:
    """In scenarios for promtool, which may not be here; that their series exist is seen without it."""
    scenarios = yaml.safe_load(_SCENARIOS.read_text(encoding="utf-8"))["tests"]
    fires: dict[str, set[bool]] = {rule["alert"]: set() for rule in _rules()}
    for scenario in scenarios:
        for series in scenario["input_series"]:
            assert not _unknown(series["series"]), scenario["name"]
        for each in scenario["alert_rule_test"]:
            fires[each["alertname"]].add(bool(each.get("exp_alerts")))
    assert not [alert for alert, outcomes in fires.items() if outcomes != {True, False}]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
def test_alerts_fire_when_they_should() -> None:
    done = subprocess.run(["promtool", "test", "rules", str(_SCENARIOS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
