"""The device: what this machine is, which engines are installed on it, and which models lie on it."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, cast

import httpx
import psutil

from minions.domain.models import EngineName, parse_model
from minions.executor.hardware import (
    read_chip,
    read_gpu_cores,
    read_graphics_cards,
    read_performance_cores,
    read_usable_mb,
)
from minions.executor.model_cache import CachedModel, ModelCache, size_of
from minions.executor.ollama_models import ollama_models
from minions.executor.settings import ExecutorSettings

_MEGABYTE = 1024 * 1024
_PROBE_SECONDS = 1.0
_MOST_MODELS = 64
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


def engine_versions(settings: ExecutorSettings) -> dict[str, str]:
    """The versions of what the engines run on, as far as they can be told."""
    found = {
        "embedding": _versions("sentence-transformers", "torch"),
        "llama_cpp": _versions("xllamacpp"),
        "ollama": _ollama_version(settings.ollama_url) if settings.ollama_url else "",
        "openai_server": "a server on this machine",
    }
    return {engine: found[engine] or "unknown" for engine in installed_engines(settings)}


async def find_ollama() -> str | None:
    """The address of this machine's own Ollama, if it runs."""
    with contextlib.suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=_PROBE_SECONDS, trust_env=False) as client:
            if (await client.get(f"{OLLAMA_URL}/api/version")).is_success:
                return OLLAMA_URL
    return None


def model_memory_mb(settings: ExecutorSettings) -> int | None:
    """What a model may use. Asks the GPU's library, which takes seconds on a Mac."""
    return settings.memory_mb if settings.memory_mb is not None else read_usable_mb(settings.device)


def describe(settings: ExecutorSettings) -> dict[str, Any]:
    """Chip, cores, memory, disk, engines and models, for people and for the server's estimates. What cannot be told is
    left out. Starts programs and reads the disk: not for the event loop."""
    cards = read_graphics_cards()
    disk = shutil.disk_usage(settings.cache)
    found: dict[str, Any] = {
        "chip": read_chip() or platform.processor() or None,
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "performance_cores": read_performance_cores(),
        "gpu_cores": read_gpu_cores(),
        "gpu": ", ".join(f"{card.name} ({card.memory_mb:,} MB)" for card in cards) or None,
        "memory_mb": psutil.virtual_memory().total // _MEGABYTE,
        "disk_free_mb": disk.free // _MEGABYTE,
        "disk_mb": disk.total // _MEGABYTE,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "engines": engine_versions(settings),
    } | known_models(settings)
    return {name: value for name, value in found.items() if value is not None}


def known_models(settings: ExecutorSettings) -> dict[str, Any]:
    """What lies on this machine, the most recently used first: a bounded list, and how many it leaves out."""
    cached = sorted(ModelCache(settings.cache).models(), key=lambda each: -each.used_at)
    found = [{"model": name, "size_bytes": size} for each in cached for name, size in _parts_of(each)]
    if settings.ollama_url is not None:
        found += [
            {"model": f"ollama:{each.name}", "size_bytes": each.size_bytes, "digest": each.digest}
            for each in ollama_models(settings.ollama_url)
        ]
    left_out = {"models_left_out": len(found) - _MOST_MODELS} if len(found) > _MOST_MODELS else {}
    return {"models": found[:_MOST_MODELS]} | left_out


def with_models(device: Mapping[str, Any], loaded: Iterable[str]) -> dict[str, Any]:
    """The device with those of the models that engines loaded which no cache holds: folders of this machine, and what a
    server of it serves. Pure."""
    known = cast("list[dict[str, Any]]", device.get("models", []))
    names = {each["model"] for each in known}
    elsewhere = sorted(model for model in loaded if parse_model(model).source in ("path", "openai"))
    found = [{"model": model} for model in elsewhere if model not in names] + known
    return {**device, "models": found[:_MOST_MODELS]}


def _parts_of(cached: CachedModel) -> list[tuple[str, int]]:
    """A hub's folder holds one model, or several GGUF files, each of which is one."""
    files = {
        path.relative_to(snapshot).as_posix(): path.stat().st_size
        for snapshot in (cached.folder / "snapshots").glob("*")
        for path in snapshot.rglob("*.gguf")
        if path.exists()
    }
    if files:
        return [(f"{cached.model}/{name}", size_bytes) for name, size_bytes in sorted(files.items())]
    blobs = cached.folder / "blobs"
    return [(cached.model, size_of(blobs) if blobs.is_dir() else cached.size_bytes)]


def _versions(*packages: str) -> str:
    said: list[str] = []
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            said.append(f"{package} {version(package)}")
    return ", ".join(said)


def _ollama_version(url: str) -> str:
    with contextlib.suppress(httpx.HTTPError, ValueError, AttributeError):
        answer = httpx.get(f"{url.rstrip('/')}/api/version", timeout=_PROBE_SECONDS, trust_env=False)
        return f"ollama {answer.json().get('version', 'unknown')}"
    return ""
