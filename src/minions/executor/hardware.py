"""The hardware: chip, GPU, and how much of the memory a model may use."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import psutil

from minions.executor.probes.asking import ask, text_of

_SHARE = 0.75  # of the memory; the rest is the owner's
_GPU_SHARE = 0.9  # of a graphics card's own memory, which nobody else needs, but the display does
_MEGABYTE = 1024 * 1024
_TORCH_SECONDS = 30.0  # to import it from a cold disk
_GPU_CORES = re.compile(r'"gpu-core-count"\s*=\s*(\d+)')
# In a process of its own: torch takes 300 MB and seconds, and belongs to the engine only.
_ASK_TORCH = "import torch; print(torch.mps.recommended_max_memory() if torch.backends.mps.is_available() else '')"


@dataclass(frozen=True, slots=True)
class GraphicsCard:
    """A card with memory of its own."""

    name: str
    memory_mb: int


def parse_cpuinfo(text: str) -> str | None:
    """The processor's name in Linux's /proc/cpuinfo."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return None


def parse_gpu_cores(ioreg: str) -> int | None:
    """Cores of Apple's GPU in what `ioreg -rc AGXAccelerator` prints."""
    found = _GPU_CORES.search(ioreg)
    return int(found[1]) if found else None


def parse_count(text: str) -> int | None:
    """A number that a command prints alone, such as `sysctl -n hw.perflevel0.physicalcpu`."""
    stripped = text.strip()
    return int(stripped) if stripped.isdigit() else None


def parse_graphics_cards(text: str) -> list[GraphicsCard]:
    """What `nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits` prints; megabytes come in MiB.

    A card that does not say how much it has (`[N/A]`: it shares the machine's) is left out.
    """
    found: list[GraphicsCard] = []
    for line in text.splitlines():
        name, _, memory = line.rpartition(",")
        if name.strip() and (megabytes := parse_count(memory)) is not None:
            found.append(GraphicsCard(name.strip(), megabytes))
    return found


def read_chip() -> str | None:
    if sys.platform == "darwin":
        return (ask("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string") or "").strip() or None
    return parse_cpuinfo(text_of("/proc/cpuinfo") or "")


def read_performance_cores() -> int | None:
    """Of an Apple chip; None where all cores are alike."""
    if sys.platform != "darwin":
        return None
    return parse_count(ask("/usr/sbin/sysctl", "-n", "hw.perflevel0.physicalcpu") or "")


def read_gpu_cores() -> int | None:
    return parse_gpu_cores(ask("/usr/sbin/ioreg", "-rc", "AGXAccelerator") or "") if sys.platform == "darwin" else None


def read_graphics_cards() -> list[GraphicsCard]:
    if sys.platform == "darwin":
        return []
    query = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    return parse_graphics_cards(ask("nvidia-smi", *query) or "")


def read_metal_memory_mb() -> int | None:
    """What macOS lets the GPU have of the unified memory; None when torch cannot be asked."""
    if sys.platform != "darwin" or find_spec("torch") is None:
        return None
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _ASK_TORCH],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TORCH_SECONDS,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = parse_count(asked.stdout)
    return found // _MEGABYTE if found else None


def usable_mb(memory_mb: int, device: str | None, metal_mb: int | None, cards: list[GraphicsCard]) -> int:
    """What a model may use: of unified memory what Metal allows, of a card its own, else a share of the machine's.

    device: where engines are told to run; None where it is best. One model runs on one card.
    """
    kind = (device or "").partition(":")[0]
    if metal_mb is not None and kind in ("", "mps"):
        return metal_mb
    if cards and kind in ("", "cuda"):
        return int(max(card.memory_mb for card in cards) * _GPU_SHARE)
    return int(memory_mb * _SHARE)


def read_usable_mb(device: str | None) -> int:
    """See usable_mb."""
    memory_mb = psutil.virtual_memory().total // _MEGABYTE
    return usable_mb(memory_mb, device, read_metal_memory_mb(), read_graphics_cards())
