"""Model references: where a model comes from, and which engine runs it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from minions.domain.phrases import quoted

Kind = Literal["embed", "complete", "command"]
Source = Literal["hf", "path", "object", "ollama", "openai", "commit"]
EngineName = Literal["embedding", "llama_cpp", "ollama", "openai_server", "command"]

FORMS = (
    "hf:ORG/NAME[@REVISION], hf:ORG/NAME/FILE.gguf[@REVISION], an absolute path or file://PATH, s3://BUCKET/KEY "
    "(a folder or a .gguf), ollama:NAME[:TAG], openai:NAME"
)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A parsed model reference. A commit stands where others name a model: it is what commands are run from.

    location: the hub's ORG/NAME, a path, an object's URI, or the name that the local server knows it by.
    file: a .gguf inside a hub repository. revision: a commit, branch or tag of the hub repository.
    """

    source: Source
    location: str
    file: str | None = None
    revision: str | None = None

    @property
    def is_gguf(self) -> bool:
        return (self.file or self.location).endswith(".gguf")

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        match self.source:
            case "hf":
                return f"hf:{self.location}{'/' + self.file if self.file else ''}{at}"
            case "ollama" | "openai" | "commit":
                return f"{self.source}:{self.location}"
            case _:
                return self.location


def parse_model(text: str) -> ModelReference:
    """Read a model reference. Raises ValueError, whose text lists the accepted forms."""
    if "\0" in text:
        raise ValueError(f"{quoted(text)} is no model reference: it holds the character NUL; remove it")
    scheme, colon, rest = text.partition(":")
    if scheme in ("ollama", "openai") and colon and rest:
        return ModelReference("ollama" if scheme == "ollama" else "openai", rest)
    if scheme == "commit" and re.fullmatch(r"[0-9a-f]{40}", rest):
        return ModelReference("commit", rest)
    if text.startswith("s3://") and len(text) > len("s3://"):
        return ModelReference("object", text)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if text.startswith("/"):
        return ModelReference("path", text)
    if scheme == "hf" and rest:
        path, _, revision = rest.partition("@")
        pieces = path.split("/")
        if len(pieces) >= 2 and all(pieces):
            file = "/".join(pieces[2:]) or None
            return ModelReference("hf", "/".join(pieces[:2]), file, revision or None)
    raise ValueError(f"{quoted(text)} is no model reference; write {FORMS}")


def engine_for(kind: Kind, model: ModelReference) -> EngineName:
    """The engine that runs this model for this kind of task. Raises ValueError when none does."""
    if kind == "command":
        if model.source == "commit":
            return "command"
        raise ValueError("commands run from a commit: commit: and its 40 hexadecimal digits")
    if kind == "embed" and model.source in ("hf", "path", "object") and not model.is_gguf:
        return "embedding"
    if kind == "complete":
        if model.source == "ollama":
            return "ollama"
        if model.source == "openai":
            return "openai_server"
        if model.is_gguf:
            return "llama_cpp"
        raise ValueError(
            "completions run on ollama:NAME, openai:NAME, or a .gguf file (hf:ORG/NAME/FILE.gguf, a path, s3://…)"
        )
    raise ValueError("embeddings run on a sentence-transformers model: hf:ORG/NAME, a folder, or s3://BUCKET/FOLDER")
