"""Ollama's memory: it keeps a model loaded after the last request; an owner who comes back wants it free at once."""

from __future__ import annotations

import logging
from typing import Any

import httpx

from minions.domain.models import parse_model
from minions.executor.engines.base import EngineRequest

log = logging.getLogger(__name__)

_SECONDS = 1.5


async def free_memory(request: EngineRequest) -> None:
    """Ask Ollama to forget the model of an engine that has ended; other engines take theirs with them."""
    if request.engine != "ollama" or request.local_url is None:
        return
    body: dict[str, Any] = {"model": parse_model(request.model).location, "keep_alive": 0}
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
            await client.post(f"{request.local_url}/api/generate", json=body)
    except httpx.HTTPError as error:
        log.warning("Ollama was not reached to free its memory (%s); it does so by itself later", type(error).__name__)
