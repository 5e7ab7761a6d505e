"""What is made of the machine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from minions.domain.facts import Facts, Pressure, Thermal
from minions.domain.owner_policy import DEDICATED, GIGABYTE, OwnerPolicy
from minions.executor.doctor.findings import Verdict
from minions.executor.doctor.machine_checks import (
    Computation,
    Disk,
    judge_disk,
    judge_engines,
    judge_gpu,
    judge_memory,
    judge_ollama,
    judge_signals,
)
from minions.executor.ollama_models import OllamaModel
from minions.executor.owner_file import change, render

POLICY = OwnerPolicy()
MPS = Computation("mps", True, 0.01, "2.13.0")
CPU = replace(MPS, device="cpu")
KNOWN = Facts(
    now=datetime(2026, 11, 20, 10, tzinfo=UTC),
    idle_seconds=3.0,
    screen_locked=False,
    on_battery=True,
    thermal=Thermal.CRITICAL,
    pressure=Pressure.CRITICAL,
    metered=True,
    programs=frozenset({"zoom.us"}),
    other_cpu_percent=99.0,
    disk_free_bytes=1,
)


@pytest.mark.parametrize(
    ("versions", "kinds", "verdict", "says"),
    [
        ({"embedding": "torch 2", "llama_cpp": "x 1"}, ("embed", "complete"), Verdict.OK, "embedding (torch 2)"),
        ({"embedding": "torch 2"}, ("embed", "complete"), Verdict.UNSURE, "none for complete"),
        ({"ollama": "0.9"}, ("embed", "complete"), Verdict.UNSURE, "none for embed"),
        ({"embedding": "torch 2"}, ("embed",), Verdict.OK, "embedding"),
        ({}, ("embed",), Verdict.WRONG, "none is installed"),
    ],
)
def test_engines(versions: dict[str, str], kinds: tuple[str, ...], verdict: Verdict, says: str) -> None:
    found = judge_engines(versions, kinds, is_asked=True)
    assert found.verdict is verdict
    assert says in found.says


def test_ollama() -> None:
    models = [OllamaModel(f"m{number}:1b", 1, "") for number in range(7)]
    assert (
        judge_ollama("http://o", "0.9.1", models).says
        == "0.9.1 at http://o, with " + ", ".join(f"m{number}:1b" for number in range(5)) + " and 2 more"
    )
    assert "no models yet" in judge_ollama("http://o", "0.9.1", []).says
    assert judge_ollama("http://o", None, []).verdict is Verdict.UNSURE


@pytest.mark.parametrize(
    ("computed", "problem", "cards", "system", "verdict", "says"),
    [
        (MPS, "", [], "darwin", Verdict.OK, "mps computes"),
        (replace(MPS, is_right=False), "", [], "darwin", Verdict.WRONG, "wrong numbers"),
        (CPU, "", [], "darwin", Verdict.WRONG, "does not use this Mac's GPU"),
        (CPU, "", ["NVIDIA H200"], "linux", Verdict.WRONG, "does not use NVIDIA H200"),
        (CPU, "", [], "linux", Verdict.OK, "has no other"),
        (None, "MPS backend out of memory", [], "darwin", Verdict.WRONG, "out of memory"),
        (None, "", [], "darwin", Verdict.UNSURE, "not installed"),
    ],
)
def test_gpu(
    computed: Computation | None, problem: str, cards: list[str], system: str, verdict: Verdict, says: str
) -> None:
    found = judge_gpu(computed, problem, cards=cards, system=system)
    assert found.verdict is verdict
    assert says in found.says


@pytest.mark.parametrize(
    ("usable", "wanted", "verdict", "says"),
    [
        (24_000, None, Verdict.OK, "24,000 MB of 32,768 MB"),
        (24_000, 8_000, Verdict.OK, "8,000 MB of 32,768 MB"),
        (24_000, 30_000, Verdict.UNSURE, "30,000 MB, and the system lets it have 24,000 MB"),
        (None, None, Verdict.UNSURE, "cannot be told"),
    ],
)
def test_memory(usable: int | None, wanted: int | None, verdict: Verdict, says: str) -> None:
    found = judge_memory(usable, wanted, 32_768)
    assert found.verdict is verdict
    assert says in found.says


@pytest.mark.parametrize(
    ("changes", "cache", "state", "used", "verdict", "says"),
    [
        ({}, 50 * GIGABYTE, 50 * GIGABYTE, 0, Verdict.OK, "50.0 GB free at /cache (10.0 GB stay free)"),
        ({}, 9 * GIGABYTE, 50 * GIGABYTE, 0, Verdict.WRONG, "10.0 GB must stay free: no work starts"),
        ({}, 50 * GIGABYTE, 1, 0, Verdict.WRONG, "at /state: no log can be written"),
        ({"disk_limit_bytes": GIGABYTE}, 50 * GIGABYTE, 50 * GIGABYTE, 2 * GIGABYTE, Verdict.WRONG, "keeps 2.0 GB"),
        ({}, None, GIGABYTE, 0, Verdict.UNSURE, "cannot be told"),
    ],
)
def test_disk(
    changes: dict[str, Any], cache: int | None, state: int | None, used: int, verdict: Verdict, says: str
) -> None:
    found = judge_disk(replace(POLICY, **changes), Disk("/cache", cache), Disk("/state", state), used)
    assert found.verdict is verdict
    assert says in found.says


def test_signals_that_are_known_are_well_whatever_they_say() -> None:
    found = judge_signals(replace(POLICY, excluding_programs=("zoom.us",)), KNOWN)
    assert (found.verdict, found.says) == (Verdict.OK, "9 of 9 can be read")


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, "idle_seconds"),
        ({"excluding_programs": ("zoom.us",)}, "programs"),
        ({}, "on_battery"),
        ({"mains_only": False}, "on_battery"),
        ({}, "thermal"),
        ({}, "pressure"),
        ({"most_other_cpu_percent": 50.0}, "other_cpu_percent"),
        ({}, "metered"),
        ({}, "disk_free_bytes"),
    ],
)
def test_a_signal_that_is_asked_for_and_unknown_keeps_work_from_starting(
    changes: dict[str, Any], unknown: str, tmp_path: Path
) -> None:
    """The way out is a command that the owner's file takes, and it is enough; on battery, a second one is."""
    file, policy, facts = tmp_path / "owner.toml", replace(POLICY, **changes), replace(KNOWN, **{unknown: None})
    file.write_text(render(policy))
    found = judge_signals(policy, facts)
    assert found.verdict is Verdict.WRONG
    assert "8 of 9 can be read; " in found.says
    assert found.says.endswith(" cannot be told: no work ever starts")
    for _ in range(2):
        if found.verdict is Verdict.WRONG:
            key, value = found.way_out.partition("config set ")[2].rstrip("`").split(" ")
            found = judge_signals(change(file, key, value), facts)
    assert found.verdict is Verdict.OK, found


def test_a_machine_that_nobody_sits_at_needs_no_signal() -> None:
    found = judge_signals(DEDICATED, Facts(now=KNOWN.now))
    assert found.verdict is Verdict.OK
    assert "unknown, and not asked for: last key or movement, locked screen" in found.says
