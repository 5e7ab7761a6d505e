"""Pins: what all executors of one task must agree on, fixed by its first part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN_DIGEST = 19


def pin_of(model_digest: str, precision: str, context_tokens: int | None) -> dict[str, Any]:
    """A pin, as it is stored. context_tokens None or 0: the executor did not say."""
    window = {"context_tokens": context_tokens} if context_tokens else {}
    return {"model_digest": model_digest, "precision": precision} | window


def differences(pin: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """How what an executor has differs from the pin, one sentence each; empty when it fits.

    A window that either side does not know is no difference: tasks that an older version began have none.
    """
    said: list[str] = []
    if pin["model_digest"] != found["model_digest"]:
        said.append(f"the weights {short(found['model_digest'])}, not {short(pin['model_digest'])}")
    if pin["precision"] != found["precision"]:
        said.append(f"the precision {found['precision'] or 'unknown'}, not {pin['precision'] or 'unknown'}")
    ours, theirs = pin.get("context_tokens"), found.get("context_tokens")
    if ours and theirs and ours != theirs:
        said.append(f"a window of {theirs:,} tokens, not {ours:,}")
    return said


def short(digest: str) -> str:
    """As much of a digest as tells it from others, with its algorithm if it names one."""
    return digest[:_SHOWN_DIGEST] or "unknown"
