"""Models on this machine: from a reference to a local path and the digest of the very weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minions.domain.errors import ModelUnavailable
from minions.domain.models import ModelReference, parse_model
from minions.executor.engines.base import EngineRequest, Progress
from minions.executor.fitting import demand_fit
from minions.executor.model_cache import ModelCache, full_disk_said
from minions.executor.model_digests import files_of, path_digest
from minions.executor.ollama_models import ollama_models


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that lies on this machine. digest: a commit of the hub, or SHA-256 over the files."""

    path: Path
    digest: str
    weight_bytes: int


def resolve_model(request: EngineRequest, progress: Progress) -> LocalModel:
    """Find the model, or fetch it into the request's cache, where nobody deletes it while this process lives.

    Raises ModelUnavailable, which says what is missing and where it was looked for; DiskFull, DoesNotFit and
    Unavailable when this machine cannot have it now.
    """
    reference = parse_model(request.model)
    match reference.source:
        case "path":
            return _on_disk(Path(reference.location), request.cache, progress)
        case "hf":
            # Imported late: the hub's library takes long to import, and a path needs none of it.
            from minions.executor.hub_models import fetch_from_hub

            with full_disk_said():
                path, commit = fetch_from_hub(
                    reference,
                    request.cache / "hf",
                    _shared(request),
                    progress,
                    lambda size_bytes: demand_fit(request, size_bytes),
                )
            return LocalModel(path, commit, _bytes_of(path))
        case "object":
            from minions.executor.object_models import fetch_objects

            demand_fit(request, sum(file.size_bytes for file in request.files))
            with full_disk_said():
                path = fetch_objects(reference, request.files, request.cache, _shared(request), progress)
            return _fetched(reference, path, request.cache)
        case "ollama" | "openai":
            raise ModelUnavailable(f"{reference} is served by a local server; the {request.engine} engine needs files")
        case "commit":
            raise ModelUnavailable(f"{reference} is what commands run from; the {request.engine} engine needs files")


def _shared(request: EngineRequest) -> ModelCache:
    url = request.ollama_url
    return ModelCache(
        request.cache,
        limit_bytes=request.cache_limit_bytes,
        elsewhere_bytes=lambda: sum(each.size_bytes for each in ollama_models(url)) if url else 0,
    )


def _on_disk(path: Path, cache: Path, progress: Progress) -> LocalModel:
    if not path.exists():
        raise ModelUnavailable(
            f"there is no model at {path} on this machine; put it there, or name one as hf:… or s3://…"
        )
    total_bytes = _bytes_of(path)
    if total_bytes == 0:
        raise ModelUnavailable(f"the model at {path} has no content; copy its files there again")
    done_bytes = 0

    def hashed(piece_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += piece_bytes
        progress("hashing", done_bytes, total_bytes)

    return LocalModel(path, path_digest(path, cache, hashed), total_bytes)


def _fetched(reference: ModelReference, path: Path, cache: Path) -> LocalModel:
    try:
        return LocalModel(path, path_digest(path, cache), _bytes_of(path))
    except OSError as error:
        raise ModelUnavailable(f"{reference} was fetched, but cannot be read at {path}: {error.strerror}") from error


def _bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in files_of(path))
