"""The compose file starts what exists: it cannot be run here, so what it says is held against the code."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from minions.commands.tree import program
from tests.unit.deploy.shipped import DEPLOY

ROOT = DEPLOY.parent
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "minions"]


def test_all_parts_are_there() -> None:
    assert OURS == ["server-1", "server-2", "watchdog-1", "watchdog-2"]
    assert {"postgres", "objects", "proxy", "grafana", "prometheus"} <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_a_command_of_ours_has_all_that_it_needs(name: str) -> None:
    """Options exist and fit; what is required comes from the command or the environment; no variable goes unread."""
    verb, *words = SERVICES[name]["command"]
    environment: dict[str, str] = SERVICES[name]["environment"]
    root: Any = program()
    command = root.get_command(root.make_context("minions", [], resilient_parsing=True), verb)
    context = command.make_context(verb, [], resilient_parsing=True)
    given, _, _ = command.make_parser(context).parse_args(args=list(words))
    for parameter in command.params:
        if parameter.required:
            assert parameter.name in given or parameter.envvar in environment, parameter.name
    known = {parameter.envvar for parameter in command.params}
    assert {each for each in environment if each.startswith("MINIONS_")} <= known


def test_no_secret_is_part_of_a_command() -> None:
    for name, service in SERVICES.items():
        assert "${" not in " ".join(service.get("command", [])), name


def test_what_is_mounted_and_built_exists() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], (name, source)
        for config in service.get("configs", []):
            assert config["source"] in COMPOSE["configs"], name
        for other in service.get("depends_on", []):
            assert other in SERVICES, (name, other)
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for source in " ".join(copied).split():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, "it does not reach the builder"


def test_every_setting_is_in_the_example() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{(\w+)", text))
    written = re.findall(r"^(\w+)=(.*)$", (DEPLOY / "example.env").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for name, _ in written} == used
    assert not [name for name, value in written if value], "an example that works would be used as it is"


def test_grafana_is_given_what_its_data_source_reads() -> None:
    folder = DEPLOY / "grafana" / "provisioning" / "datasources"
    read = {name for file in folder.iterdir() for name in re.findall(r"\$(MINIONS_\w+)", file.read_text("utf-8"))}
    given = {name for name in SERVICES["grafana"]["environment"] if name.startswith("MINIONS_")}
    assert read == given
    (provider,) = yaml.safe_load(
        (DEPLOY / "grafana" / "provisioning" / "dashboards" / "minions.yaml").read_text(encoding="utf-8")
    )["providers"]
    mounted = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounted


def test_nothing_starts_before_what_it_needs_is_ready() -> None:
    """Healthy, where a check says so; `started` is true of a process that does not answer yet."""
    for name, service in SERVICES.items():
        if isinstance(service.get("depends_on"), list):
            continue  # the proxy, which looks for itself who is ready
        needs: dict[str, dict[str, str]] = service.get("depends_on", {})
        for other, need in needs.items():
            lasting = "healthcheck" in SERVICES[other]
            assert need["condition"] == ("service_healthy" if lasting else "service_completed_successfully"), name
    for name in ("postgres", "objects", *OURS[:2]):
        assert SERVICES[name]["healthcheck"]["start_period"], f"{name} may be slow at first"
    assert "--host" in SERVICES["postgres"]["healthcheck"]["test"], "at its socket it answers while it is being made"


def test_parallel_queries_have_shared_memory() -> None:
    assert SERVICES["postgres"]["shm_size"] == "256m"


def test_grafana_reaches_prometheus_and_only_this_machine_does() -> None:
    assert SERVICES["grafana"]["environment"]["MINIONS_GRAFANA_PROMETHEUS_URL"] == "http://prometheus:9090"
    assert SERVICES["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]


def test_prometheus_asks_those_that_answer() -> None:
    configuration = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = [
        target
        for job in configuration["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    ]
    ports = {"server": "7878", "watchdog": "9464"}
    assert targets == [f"{name}:{ports[name.split('-')[0]]}" for name in OURS]
    assert "0.0.0.0:9464" in SERVICES["watchdog-1"]["command"]
    proxy = COMPOSE["configs"]["proxy"]["content"]
    assert re.findall(r"health_uri (\S+)", proxy) == ["/healthz"], "what all servers lack must not take them all out"
    assert "respond /metrics 404" in proxy, "metrics are open, but not to the world"
    assert "ports" not in SERVICES["server-1"]
    assert [f"{name}:7878" in proxy for name in OURS[:2]] == [True, True]
