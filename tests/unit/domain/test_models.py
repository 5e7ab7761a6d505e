"""Model references, and the engines that run them."""

from __future__ import annotations

import pytest

from minions.domain.models import Kind, ModelReference, engine_for, parse_model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf:org/name", ModelReference("hf", "org/name")),
        ("hf:org/name@abc123", ModelReference("hf", "org/name", revision="abc123")),
        ("hf:org/name/sub/file.gguf", ModelReference("hf", "org/name", "sub/file.gguf")),
        ("hf:org/name/file.gguf@main", ModelReference("hf", "org/name", "file.gguf", "main")),
        ("/models/x", ModelReference("path", "/models/x")),
        ("file:///models/x", ModelReference("path", "/models/x")),
        ("s3://bucket/folder", ModelReference("object", "s3://bucket/folder")),
        ("ollama:qwen3:0.6b", ModelReference("ollama", "qwen3:0.6b")),
        ("openai:local/model@1", ModelReference("openai", "local/model@1")),
    ],
)
def test_references(text: str, expected: ModelReference) -> None:
    found = parse_model(text)
    assert found == expected
    assert parse_model(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "name", "org/name", "hf:", "hf:name", "hf:/name", "hf:org/", "hf:org//x", "ollama:", "s3://", "file://x"],
)
def test_what_is_no_reference_is_told_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is no model reference; write hf:ORG/NAME"):
        parse_model(text)


@pytest.mark.parametrize(
    ("kind", "text", "engine"),
    [
        ("embed", "hf:org/name", "embedding"),
        ("embed", "/models/x", "embedding"),
        ("embed", "s3://bucket/folder", "embedding"),
        ("complete", "ollama:qwen3", "ollama"),
        ("complete", "openai:any", "openai_server"),
        ("complete", "hf:org/name/file.gguf", "llama_cpp"),
        ("complete", "/models/x.gguf", "llama_cpp"),
    ],
)
def test_engines(kind: Kind, text: str, engine: str) -> None:
    assert engine_for(kind, parse_model(text)) == engine


@pytest.mark.parametrize(
    ("kind", "text"),
    [("embed", "ollama:nomic"), ("embed", "/models/x.gguf"), ("complete", "hf:org/name"), ("complete", "/models/x")],
)
def test_what_no_engine_runs(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match="run on"):
        engine_for(kind, parse_model(text))
