"""What a machine says of its hardware, in outputs as they are printed."""

from __future__ import annotations

import pytest

from minions.executor.hardware import (
    GraphicsCard,
    parse_count,
    parse_cpuinfo,
    parse_gpu_cores,
    parse_graphics_cards,
    usable_mb,
)

IOREG = """\
+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x100000497, registered, matched, active, busy 0 (13 ms)>
    {
      "IOClass" = "AGXAcceleratorG13X"
      "gpu-core-count" = 16
      "model" = "Apple M1 Pro"
      "GPUConfigurationVariable" = {"num_cores"=16,"gpu_gen"=13,"num_gps"=4,"gpu_var"="S"}
      "IOReportLegend" = ({"IOReportGroupName"="GPU Stats"})
    }
"""


@pytest.mark.parametrize(("text", "cores"), [(IOREG, 16), ("", None), ('"model" = "AMD Radeon Pro 5500M"', None)])
def test_gpu_cores(text: str, cores: int | None) -> None:
    assert parse_gpu_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7B13\nflags\t: a b", "AMD EPYC 7B13"),
        ("processor\t: 0\nBogoMIPS\t: 48.00\n", None),
        ("model name\t:\n", None),
        ("", None),
    ],
)
def test_the_processors_name_is_read_or_unknown(text: str, name: str | None) -> None:
    assert parse_cpuinfo(text) == name


@pytest.mark.parametrize(
    ("text", "count"),
    [("8\n", 8), ("", None), ("sysctl: unknown oid 'hw.perflevel0.physicalcpu'\n", None), ("-1", None)],
)
def test_a_count_is_a_number_alone(text: str, count: int | None) -> None:
    assert parse_count(text) == count


def test_graphics_cards_and_those_that_share_the_machines_memory() -> None:
    printed = "NVIDIA GeForce RTX 4090, 24564\nNVIDIA H200, 143771\nNVIDIA GB10, [N/A]\n"
    assert parse_graphics_cards(printed) == [
        GraphicsCard("NVIDIA GeForce RTX 4090", 24564),
        GraphicsCard("NVIDIA H200", 143771),
    ]
    assert parse_graphics_cards("No devices were found\n") == []


@pytest.mark.parametrize(
    ("device", "metal_mb", "cards", "usable"),
    [
        (None, 21_845, [], 21_845),
        ("mps", 21_845, [], 21_845),
        ("cpu", 21_845, [], 24_576),
        (None, None, [GraphicsCard("small", 8_000), GraphicsCard("large", 24_000)], 21_600),
        ("cuda:0", None, [GraphicsCard("one", 24_000)], 21_600),
        ("cpu", None, [GraphicsCard("one", 24_000)], 24_576),
        (None, None, [], 24_576),
    ],
)
def test_what_a_model_may_use(device: str | None, metal_mb: int | None, cards: list[GraphicsCard], usable: int) -> None:
    assert usable_mb(32_768, device, metal_mb, cards) == usable
