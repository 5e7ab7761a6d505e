"""This machine's side: engines, the GPU, memory, disk, and the signals that its owner's file asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minions.domain.facts import Facts
from minions.domain.owner_policy import GIGABYTE, OwnerPolicy
from minions.domain.owner_rules import WAIVERS, Finding, limits, somebody_here
from minions.domain.presence import Presence
from minions.executor.doctor.findings import Judgement, unsure, well, wrong
from minions.executor.ollama_models import OllamaModel

_LEAST_STATE_BYTES = GIGABYTE // 10
_MEGABYTE = 1024 * 1024
_INSTALL = "pip install 'minions-cloud[embedding,llama-cpp]', or start Ollama"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Computation:
    """One small multiplication on the device that engines would take. is_right: the CPU agrees with the result."""

    device: str
    is_right: bool
    seconds: float
    torch: str


@dataclass(frozen=True, slots=True)
class Disk:
    """free_bytes: of the disk that holds the place; None when it cannot be told."""

    place: str
    free_bytes: int | None


def judge_engines(versions: Mapping[str, str], kinds: Sequence[str], *, is_asked: bool) -> Judgement:
    """versions: of each engine that is installed. kinds: what is offered. is_asked: an owner's file says so."""
    if not versions:
        return wrong("none is installed, so nothing can be worked on", _INSTALL)
    said = ", ".join(f"{engine} ({version})" for engine, version in sorted(versions.items()))
    able = {"embed": "embedding" in versions, "complete": bool(versions.keys() - {"embedding"})}
    unable = [kind for kind in kinds if not able.get(kind, True)]
    if unable:
        by_whom = "the owner's file offers" if is_asked else "an executor without an owner's file offers"
        return unsure(f"{said}; none for {' and '.join(unable)}, which {by_whom}", _INSTALL)
    return well(said)


def judge_ollama(url: str, version: str | None, models: Sequence[OllamaModel]) -> Judgement:
    """version: None when it does not answer."""
    if version is None:
        return unsure(f"none answers at {url}", "start it, if this machine is to run Ollama's models")
    names = ", ".join(model.name for model in models[:_NAMED])
    more = f" and {len(models) - _NAMED} more" if len(models) > _NAMED else ""
    return well(f"{version} at {url}, {f'with {names}{more}' if models else 'with no models yet'}")


def judge_gpu(computed: Computation | None, problem: str, *, cards: Sequence[str], system: str) -> Judgement:
    """computed: None when torch is not installed, or failed; then problem says how. cards: that the system names."""
    if computed is None:
        if problem:
            return wrong(f"torch cannot compute: {problem}", "install the extra `embedding` anew in this environment")
        return unsure("torch is not installed, so embeddings do not run here", _INSTALL)
    took = f"{computed.device} computes, in {computed.seconds:.2f} s (torch {computed.torch})"
    if not computed.is_right:
        return wrong(
            f"{computed.device} computes wrong numbers (torch {computed.torch})",
            "update torch and the system; until then start the executor with --device cpu",
        )
    if computed.device != "cpu":
        return well(took)
    if cards:
        return wrong(f"torch does not use {' and '.join(cards)}: {took}", "install a torch that is built for CUDA")
    if system == "darwin":
        return wrong(f"torch does not use this Mac's GPU: {took}", "install Python and torch for arm64")
    return well(f"{took}; this machine has no other")


def judge_memory(usable_mb: int | None, wanted_mb: int | None, total_mb: int) -> Judgement:
    """usable_mb: what the system lets a model have. wanted_mb: what its owner or a flag says."""
    if wanted_mb is not None and usable_mb is not None and wanted_mb > usable_mb:
        return unsure(
            f"a model may use {wanted_mb:,} MB, and the system lets it have {usable_mb:,} MB of {total_mb:,} MB",
            "lower memory_mb: minions executor config set memory_mb default",
        )
    allowed = wanted_mb if wanted_mb is not None else usable_mb
    if allowed is None:
        return unsure("what a model may use cannot be told", "set it: minions executor config set memory_mb 8192")
    return well(f"a model may use {allowed:,} MB of {total_mb:,} MB")


def judge_disk(policy: OwnerPolicy, cache: Disk, state: Disk, used_bytes: int) -> Judgement:
    """Against the limits of the owner's file. used_bytes: what the executor keeps."""
    if cache.free_bytes is None or state.free_bytes is None:
        return unsure(f"how full the disk of {cache.place} or {state.place} is cannot be told")
    least = policy.minimum_free_disk_bytes
    free = f"{_gigabytes(cache.free_bytes)} free at {cache.place}"
    if cache.free_bytes < least:
        return wrong(
            f"{free}, and {_gigabytes(least)} must stay free: no work starts",
            "make room, or lower it: minions executor config set minimum_free_disk_gb 5",
        )
    if state.free_bytes < _LEAST_STATE_BYTES:
        return wrong(f"{_gigabytes(state.free_bytes)} free at {state.place}: no log can be written", "make room")
    if policy.disk_limit_bytes is not None and used_bytes > policy.disk_limit_bytes:
        return wrong(
            f"the executor keeps {_gigabytes(used_bytes)}, and may keep {_gigabytes(policy.disk_limit_bytes)}",
            "raise disk_gb, or lower model_cache_gb: the least recently used models are deleted then",
        )
    stays = f" ({_gigabytes(least)} stay free)" if least else ""
    return well(f"{free}{stays}, {_gigabytes(used_bytes)} kept by the executor")


def judge_signals(policy: OwnerPolicy, facts: Facts) -> Judgement:
    """Which signals can be read here. One that the owner's file asks for and that is unknown never lets work start."""
    known = {
        "last key or movement": facts.idle_seconds,
        "locked screen": facts.screen_locked,
        "power": facts.on_battery,
        "heat": facts.thermal,
        "memory pressure": facts.pressure,
        "metered network": facts.metered,
        "programs": facts.programs,
        "processor": facts.other_cpu_percent,
        "free disk": facts.disk_free_bytes,
    }
    unknown = [name for name, value in known.items() if value is None]
    read = f"{len(known) - len(unknown)} of {len(known)} can be read"
    if blocking := _blocking(policy, facts):
        says = "; ".join(each.words for each in blocking)
        settings = " and ".join(f"`minions executor config set {_words(WAIVERS[each.topic])}`" for each in blocking)
        return wrong(f"{read}; {says}: no work ever starts", f"if it does not matter on this machine: {settings}")
    return well(read + (f"; unknown, and not asked for: {', '.join(unknown)}" if unknown else ""))


def _words(line: str) -> str:
    """A line of the owner's file as the command takes it."""
    key, _, value = line.partition(" = ")
    return " ".join((key, value.strip('"')))


def _blocking(policy: OwnerPolicy, facts: Facts) -> list[Finding]:
    """What the owner's rules say of what they cannot tell."""
    here = somebody_here(policy, facts, Presence(), facts.now, is_running=False, is_holding=False)
    return [each for each in [here, *limits(policy, facts)] if each is not None and not each.is_known]


def _gigabytes(number: int) -> str:
    return f"{number / GIGABYTE:.1f} GB"
