"""The device: what this machine is, and which engines are installed on it."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psutil

from minions.domain.models import EngineName
from minions.executor.settings import ExecutorSettings

_MODEL_SHARE = 0.75  # of the memory; the rest is the owner's
_MEGABYTE = 1024 * 1024
_PROBE_SECONDS = 1.0
OLLAMA_URL = "http://127.0.0.1:11434"


def installed_engines(settings: ExecutorSettings) -> list[EngineName]:
    """Engines whose libraries are installed, or whose local server was named."""
    found: list[EngineName] = []
    if find_spec("sentence_transformers") is not None and find_spec("torch") is not None:
        found.append("embedding")
    if find_spec("xllamacpp") is not None:
        found.append("llama_cpp")
    if settings.ollama_url is not None:
        found.append("ollama")
    if settings.openai_url is not None:
        found.append("openai_server")
    return found


async def find_ollama() -> str | None:
    """The address of this machine's own Ollama, if it runs."""
    with contextlib.suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=_PROBE_SECONDS, trust_env=False) as client:
            if (await client.get(f"{OLLAMA_URL}/api/version")).is_success:
                return OLLAMA_URL
    return None


def model_memory_mb(settings: ExecutorSettings) -> int | None:
    """What a model may use."""
    if settings.memory_mb is not None:
        return settings.memory_mb
    return int(psutil.virtual_memory().total * _MODEL_SHARE / _MEGABYTE)


def describe() -> dict[str, Any]:
    """Chip, cores, memory and system, for people."""
    return {
        "chip": _chip(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "memory_mb": psutil.virtual_memory().total // _MEGABYTE,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def parse_cpuinfo(text: str) -> str | None:
    """The processor's name in Linux's /proc/cpuinfo."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return None


def _chip() -> str | None:
    if sys.platform == "darwin":
        done = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
        )
        return done.stdout.strip() or None
    try:
        return parse_cpuinfo(Path("/proc/cpuinfo").read_text())
    except OSError:
        return platform.processor() or None
