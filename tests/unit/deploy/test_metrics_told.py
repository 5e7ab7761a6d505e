"""What people read about metrics, and what alerts ask for, are metrics that exist."""

from __future__ import annotations

import re

import yaml

from minions.server.counters import Counters
from minions.server.metrics import server_metrics, standing_metrics
from minions.store.standing import Group, Standing
from minions.watchdog.metrics import WatchdogMetrics
from tests.unit.deploy.shipped import DEPLOY

_OPERATIONS = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
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


def test_alerts_ask_for_metrics_and_labels_that_exist() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    existing = _existing()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        asked = re.findall(r"\b(minions_\w+)(?:\{([^}]*)\})?", rule["expr"])
        assert asked or rule["expr"].startswith("up{"), rule["alert"]
        for name, selector in asked:
            assert name in existing, rule["alert"]
            assert set(re.findall(r"(\w+)(?:=|=~|!=)\"", selector)) <= set(existing[name]), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["expr"].count("(") == rule["expr"].count(")")
