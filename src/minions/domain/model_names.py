"""Model references as people read them; pure."""

from __future__ import annotations

_GENERIC = ("model", "snapshot", "main", "weights")


def short_model(model: str) -> str:
    """The part of a model reference that tells models apart: `bge-small-en-v1.5`, `llama3.2:3b`."""
    pieces = [piece for piece in model.removeprefix("hf:").rstrip("/").split("/") if piece]
    if model.startswith(("ollama:", "openai:")) or not pieces:
        return model.partition(":")[2] or model
    last = pieces[-1].removesuffix(".gguf").partition("@")[0]
    return f"{pieces[-2]}/{last}" if last.lower() in _GENERIC and len(pieces) > 1 else last
