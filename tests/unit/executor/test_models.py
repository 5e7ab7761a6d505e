"""Models become local paths with digests: from a path, from signed links, and from a hub."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from minions.domain.errors import DiskFull, DoesNotFit, ModelUnavailable, Unavailable
from minions.domain.specification import EmbedParameters
from minions.executor import hub_models
from minions.executor.engines.base import EngineRequest, ModelFile
from minions.executor.models import LocalModel, resolve_model

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 5000, "1_Pooling/config.json": b'{"a": 1}'}


class Files:
    """A server of files with ranges, that also speaks as much of the hub's API as a download takes."""

    def __init__(self) -> None:
        self.url = ""
        self.gets: list[tuple[str, str | None]] = []
        self.cut_after: int | None = None  # the next answer breaks off after so many bytes
        self.etag: str | None = None  # of all files; None: the hash of each
        self.refuse_with: int | None = None
        self.content = dict(_FILES)
        self.sha256: dict[str, str] = {}  # what the hub announces


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: Files

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/"):
            self._api(path)
            return
        name = path.removeprefix(f"/org/name/resolve/{_COMMIT}/").removeprefix("/org/name/resolve/main/").lstrip("/")
        if self.command == "GET":
            self.files.gets.append((name, self.headers["Range"]))
        if self.files.refuse_with is not None:
            self._send(self.files.refuse_with, b"")
            return
        if name not in self.files.content:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = self.files.content[name]
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")[0])
        digest = self.files.etag or hashlib.sha256(content).hexdigest()
        if self.headers["If-Match"] not in (None, f'"{digest}"'):
            self._send(412, b"")
            return
        self._send(206 if self.headers["Range"] else 200, content[start:], {"ETag": f'"{digest}"'})

    def _api(self, path: str) -> None:
        if not path.startswith("/api/models/org/name"):
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif "/revision/absent" in path:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif "/tree/" in path:
            listing = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                | self._lfs(name, content)
                for name, content in _FILES.items()
            ]
            self._send(200, json.dumps(listing).encode())
        else:
            info = {"id": "org/name", "sha": _COMMIT, "siblings": [{"rfilename": name} for name in _FILES]}
            self._send(200, json.dumps(info).encode())

    def _lfs(self, name: str, content: bytes) -> dict[str, Any]:
        if name not in self.files.sha256:
            return {}
        return {"lfs": {"oid": self.files.sha256[name], "size": len(content), "pointerSize": 1}}

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"X-Repo-Commit": _COMMIT, "Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.files.cut_after is not None:
            content, self.files.cut_after = content[: self.files.cut_after], None
            self.close_connection = True
        self.wfile.write(content)


@pytest.fixture
def files() -> Generator[Files]:
    """A running server."""
    state = Files()
    handler = type("Handler", (_Handler,), {"files": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


def no_progress(what: str, done_bytes: int, total_bytes: int | None) -> None:
    """Progress is not watched here."""


def resolve(model: str, cache: Path, files: tuple[ModelFile, ...] = ()) -> LocalModel:
    """Resolve a model for the embedding engine."""
    request = EngineRequest("embedding", model, EmbedParameters.model_validate({}), cache, files)
    return resolve_model(request, no_progress)


def folder_at(path: Path) -> Path:
    """The test's files as a folder."""
    for name, content in _FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def links(url: str) -> tuple[ModelFile, ...]:
    """Signed links to the test's files."""
    return tuple(ModelFile(name, len(content), f"{url}/{name}") for name, content in _FILES.items())


def test_a_folder_is_known_by_the_content_of_its_files(tmp_path: Path) -> None:
    folder = folder_at(tmp_path / "one")
    found = resolve(str(folder), tmp_path / "cache")
    assert (found.path, found.weight_bytes) == (folder, sum(map(len, _FILES.values())))
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("not part of the model")
    copy = folder_at(tmp_path / "two")
    assert resolve(str(copy), tmp_path / "cache").digest == found.digest == resolve(str(folder), tmp_path / "c2").digest
    (copy / "config.json").write_bytes(b"[]")
    assert resolve(str(copy), tmp_path / "cache").digest != found.digest


def test_a_file_is_known_by_its_own_hash_and_hashed_once(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    first = resolve(str(file), tmp_path / "cache")
    assert first.digest == hashlib.sha256(b"weights").hexdigest()
    stamp = file.stat()
    file.write_bytes(b"WEIGHTS")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert resolve(str(file), tmp_path / "cache").digest == first.digest, "same size and time: not read again"
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert resolve(str(file), tmp_path / "cache").digest == hashlib.sha256(b"WEIGHTS").hexdigest()


def test_a_damaged_memory_of_digests_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "digests.json").write_text("{broken")
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    assert resolve(str(file), tmp_path).digest == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize("exists", [True, False])
def test_a_path_without_a_model_is_named(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "nothing").mkdir()
    with pytest.raises(ModelUnavailable, match="nothing"):
        resolve(str(tmp_path / "nothing"), tmp_path)


def test_signed_links_are_fetched_once_even_by_many(files: Files, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(resolve, ["s3://bucket/model"] * 4, [tmp_path] * 4, [links(files.url)] * 4))
    assert len(files.gets) == len(_FILES)
    assert {model.digest for model in found} == {resolve(str(folder_at(tmp_path / "same")), tmp_path).digest}
    assert (found[0].path / "1_Pooling" / "config.json").read_bytes() == _FILES["1_Pooling/config.json"]


def test_a_broken_download_is_resumed_where_it_broke(files: Files, tmp_path: Path) -> None:
    wanted = links(files.url)[1:2]
    files.cut_after = 300_000
    found = resolve("s3://bucket/model", tmp_path, wanted)
    assert (found.path / wanted[0].name).read_bytes() == _FILES[wanted[0].name]
    starts = [int((given or "").removeprefix("bytes=").rstrip("-")) for _, given in files.gets]
    assert starts[0] == 0
    assert starts[1] > 0


def test_weights_that_were_replaced_under_their_key_are_fetched_again(files: Files, tmp_path: Path) -> None:
    """A fine-tune often has files of exactly the same sizes."""

    def at(etag: str) -> tuple[ModelFile, ...]:
        return tuple(replace(file, etag=etag) for file in links(files.url))

    files.etag = "one"
    first = resolve("s3://bucket/model", tmp_path, at("one"))
    assert resolve("s3://bucket/model", tmp_path, at("one")).path == first.path
    assert len(files.gets) == len(_FILES)
    files.etag = "two"
    resolve("s3://bucket/model", tmp_path, at("two"))
    assert len(files.gets) == 2 * len(_FILES)


def test_a_model_that_is_replaced_in_the_midst_is_not_put_together_of_two(files: Files, tmp_path: Path) -> None:
    wanted = (replace(links(files.url)[1], etag='"one"'),)
    files.etag, files.cut_after = "one", 300_000
    replaced = files.content["model.safetensors"][::-1]

    def replace_it(what: str, done_bytes: int, total_bytes: int | None) -> None:
        files.content["model.safetensors"], files.etag = replaced, "two"

    request = EngineRequest("embedding", "s3://bucket/model", EmbedParameters.model_validate({}), tmp_path, wanted)
    with pytest.raises(Unavailable, match="was replaced"):
        resolve_model(request, replace_it)
    again = (replace(wanted[0], etag='"two"'),)
    assert (resolve("s3://bucket/model", tmp_path, again).path / "model.safetensors").read_bytes() == replaced


@pytest.mark.parametrize(("status", "message"), [(403, "the link has expired"), (404, "404")])
def test_an_expired_link_is_no_missing_model(files: Files, tmp_path: Path, status: int, message: str) -> None:
    """The one costs no attempt and goes on with a new link; the other is nobody's to fetch."""
    files.refuse_with = status
    with pytest.raises(Unavailable if status == 403 else ModelUnavailable, match=message):
        resolve("s3://bucket/model", tmp_path, links(files.url))


def test_what_needs_more_memory_than_is_lent_is_not_even_fetched(files: Files, tmp_path: Path) -> None:
    request = EngineRequest(
        "embedding", "s3://bucket/model", EmbedParameters.model_validate({}), tmp_path, links(files.url),
        memory_limit_bytes=100 << 20,
    )  # fmt: skip
    with pytest.raises(DoesNotFit, match="a model may use 100 MB"):
        resolve_model(request, no_progress)
    assert files.gets == []


def test_a_cache_without_room_is_said_before_anything_is_fetched(files: Files, hub: Files, tmp_path: Path) -> None:
    for model, given in (("s3://bucket/model", links(files.url)), ("hf:org/name", ())):
        request = EngineRequest(
            "embedding", model, EmbedParameters.model_validate({}), tmp_path, given, cache_limit_bytes=1000
        )
        with pytest.raises(DoesNotFit, match="models may take 0 MB here"):
            resolve_model(request, no_progress)
    assert [name for name, _ in files.gets if name in _FILES] == []


def test_a_gguf_object_is_a_file(files: Files, tmp_path: Path) -> None:
    file = ModelFile("config.json", 2, f"{files.url}/config.json")
    assert resolve("s3://bucket/some/config.gguf", tmp_path, (file,)).path.is_file()


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("absent", 5, "404"),
        ("config.json", 5, "2 bytes, 5 were announced"),
        ("../config.json", 2, "no name"),
        ("", 1, "no name"),
    ],
)
def test_links_that_do_not_hold_what_was_announced(
    files: Files, tmp_path: Path, name: str, size: int, message: str
) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        resolve("s3://bucket/model", tmp_path, (ModelFile(name, size, f"{files.url}/{name}"),))
    found = (tmp_path / "objects").rglob("*")
    assert [path for path in found if path.is_file() and not path.name.startswith(".")] == []


def test_an_object_without_files_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="s3://bucket/model"):
        resolve("s3://bucket/model", tmp_path)


@pytest.fixture
def hub(files: Files, monkeypatch: pytest.MonkeyPatch) -> Files:
    """The server as the hub of this process."""
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", files.url)
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", files.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    return files


@pytest.mark.parametrize("reference", ["hf:org/name", "hf:org/name@main", f"hf:org/name@{_COMMIT}"])
def test_a_hub_model_is_pinned_and_found_again_without_the_hub(
    hub: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    found = resolve(reference, tmp_path)
    assert found.digest == _COMMIT
    assert (found.path / "model.safetensors").read_bytes() == _FILES["model.safetensors"]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    downloads = len(hub.gets)
    assert resolve(reference, tmp_path) == found
    assert len(hub.gets) == downloads
    (found.path / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        resolve(reference, tmp_path)


def test_weights_that_were_damaged_on_their_way_from_the_hub_are_deleted(hub: Files, tmp_path: Path) -> None:
    hub.sha256 = {"model.safetensors": "0" * 64}
    with pytest.raises(Unavailable, match=r"model.safetensors was damaged on its way"):
        resolve("hf:org/name", tmp_path)
    hub.sha256 = {"model.safetensors": hashlib.sha256(_FILES["model.safetensors"]).hexdigest()}
    found = resolve("hf:org/name", tmp_path)
    assert (found.path / "model.safetensors").read_bytes() == _FILES["model.safetensors"]


def test_weights_that_were_replaced_under_their_revision_are_fetched_and_verified_again(
    hub: Files, tmp_path: Path
) -> None:
    name = "model.safetensors"
    hub.sha256 = {name: hashlib.sha256(_FILES[name]).hexdigest()}
    resolve("hf:org/name", tmp_path)
    replaced = _FILES[name][::-1]
    hub.content[name] = replaced
    hub.sha256 = {name: "0" * 64}
    with pytest.raises(Unavailable, match="was damaged on its way"):
        resolve("hf:org/name", tmp_path)


def test_one_file_of_a_hub_model(hub: Files, tmp_path: Path) -> None:
    found = resolve("hf:org/name/1_Pooling/config.json", tmp_path)
    assert (found.digest, found.path.read_bytes()) == (_COMMIT, _FILES["1_Pooling/config.json"])


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("hf:org/other", "no such repository"),
        ("hf:org/name@absent", "no such revision"),
        ("hf:org/name/absent.gguf", "no such file"),
    ],
)
def test_what_the_hub_does_not_have_is_named(hub: Files, tmp_path: Path, reference: str, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        resolve(reference, tmp_path)


def test_a_disk_that_fills_up_during_a_download_is_no_fault_of_the_model(
    hub: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hub_models, "_fetch", no_room)
    with pytest.raises(DiskFull):
        resolve("hf:org/name", tmp_path)
