"""Models that this machine's Ollama keeps: they take disk and can be run at once, though Ollama manages them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import httpx

_PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """One model. name: with its tag; digest: of its manifest."""

    name: str
    size_bytes: int
    digest: str


def parse_tags(answer: object) -> list[OllamaModel]:
    """What `GET /api/tags` answers; entries of another form are left out."""
    if not isinstance(answer, dict):
        return []
    listed = cast("dict[str, Any]", answer).get("models")
    found: list[OllamaModel] = []
    for entry in cast("list[Any]", listed) if isinstance(listed, list) else []:
        match entry:
            case {"name": str(name), "size": int(size)}:
                digest = cast("dict[str, Any]", entry).get("digest")
                found.append(OllamaModel(name, size, digest if isinstance(digest, str) else ""))
            case _:
                continue
    return found


def ollama_models(url: str) -> list[OllamaModel]:
    """What the Ollama at this address keeps; nothing when it does not answer."""
    try:
        answer = httpx.get(f"{url.rstrip('/')}/api/tags", timeout=_PROBE_SECONDS, trust_env=False)
        return parse_tags(answer.json()) if answer.is_success else []
    except (httpx.HTTPError, ValueError):
        return []
