"""The embedding engine: its vectors are those of the model's own library, and its parameters are honoured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from minions.domain.errors import EngineFailed, MinionsError, ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import EmbedParameters
from minions.executor.engines.base import EngineRequest
from tests.services.models import embedding_model

if TYPE_CHECKING:
    from minions.executor.engines.embedding import EmbeddingEngine

_TEXTS = ["short", "", "A somewhat longer text.", "many words " * 60, "over the window " * 200, "größer 🎉 漢字", "x"]


def engine_of(request: EngineRequest) -> EmbeddingEngine:
    """The engine, not loaded yet; imported here, as torch takes seconds and all processes of a run read this file."""
    from minions.executor.engines.embedding import EmbeddingEngine

    return EmbeddingEngine(request)


def library_model(folder: Path) -> Any:
    """A model in sentence-transformers itself, which has no types."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="module")
def reference() -> Any:
    """The model in its own library."""
    return library_model(embedding_model())


@pytest.fixture(scope="module")
def prompted_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with a prompt of its own, and a pooling that leaves the prompt's tokens out."""
    folder = tmp_path_factory.mktemp("models") / "prompted"
    shutil.copytree(embedding_model(), folder)
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: ", "long": "a rather long prompt: "}, "default_prompt_name": "query"})
    )
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps(json.loads(pooling.read_text()) | {"include_prompt": False}))
    return folder


def no_progress(what: str, done_bytes: int, total_bytes: int | None) -> None:
    """Loading is not watched here."""


def no_failure(error: MinionsError) -> None:
    """Raise what ended the engine."""
    raise error


def embed(home: Path, texts: list[str], model: Path | None = None, **given: Any) -> list[Outcome]:
    """Run the engine in this process."""
    request = EngineRequest(
        "embedding", str(model or embedding_model()), EmbedParameters.model_validate(given), home, device="cpu"
    )
    engine = engine_of(request)
    engine.load(no_progress)
    found: dict[int, Outcome] = {}
    engine.run(range(len(texts)), texts, found.__setitem__, no_failure)
    return [found[index] for index in range(len(texts))]


def vector(outcome: Outcome) -> Any:
    """A vector of an outcome as numbers."""
    assert outcome.code is None
    assert outcome.vector is not None
    return np.frombuffer(outcome.vector, "<f4")


def cosine(a: Any, b: Any) -> float:
    """How alike two vectors are; 1 for the same direction."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_vectors_are_those_of_the_library(tmp_path: Path, reference: Any) -> None:
    outcomes = embed(tmp_path, _TEXTS)
    wanted = reference.encode(_TEXTS)
    assert outcomes[1].code is RowCode.EMPTY_TEXT
    for index in (0, 2, 3, 4, 5, 6):
        assert cosine(vector(outcomes[index]), wanted[index]) > 0.9999
        assert np.linalg.norm(vector(outcomes[index])) == pytest.approx(1, abs=1e-5)


def test_tokens_are_counted_before_the_cut(tmp_path: Path, reference: Any) -> None:
    exact = "word " * 254  # with the two special tokens, the whole window
    outcomes = embed(tmp_path, [exact, exact + "word", "word"])
    assert [outcome.input_tokens for outcome in outcomes] == [256, 257, 3]
    assert [outcome.truncated for outcome in outcomes] == [False, True, False]
    assert [outcome.seen_tokens for outcome in outcomes] == [None, 256, None]


@pytest.mark.parametrize("given", [{}, {"prompt_name": "long"}, {"prompt": "passage: "}, {"prompt": ""}])
def test_prompts_are_the_models_own(tmp_path: Path, prompted_model: Path, given: dict[str, str]) -> None:
    library = library_model(prompted_model)
    texts = ["what is it", "another question"]
    wanted = library.encode(texts, **given)
    for outcome, expected in zip(embed(tmp_path, texts, prompted_model, **given), wanted, strict=True):
        assert cosine(vector(outcome), expected) > 0.99999


def test_an_unknown_prompt_is_refused_with_those_that_exist(tmp_path: Path, prompted_model: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"prompt_name.*long, query"):
        embed(tmp_path, [], prompted_model, prompt_name="absent")


def test_dimensions_keep_the_first_numbers_and_the_length(tmp_path: Path, reference: Any) -> None:
    whole = vector(embed(tmp_path, ["a text"])[0])
    short = vector(embed(tmp_path, ["a text"], dimensions=64)[0])
    assert len(short) == 64
    assert cosine(short, whole[:64]) > 0.99999
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ModelUnavailable, match=r"dimensions: 385.*384"):
        embed(tmp_path, [], dimensions=385)


def test_without_normalizing_the_length_is_the_models(tmp_path: Path, reference: Any) -> None:
    long = vector(embed(tmp_path, ["a text"], normalize=False)[0])
    assert not np.isclose(np.linalg.norm(long), 1, atol=0.01)
    assert cosine(long, reference.encode(["a text"])[0]) > 0.9999


def test_half_precision_is_close(tmp_path: Path, reference: Any) -> None:
    outcome = embed(tmp_path, ["a text"], dtype="bfloat16")[0]
    assert 0.98 < cosine(vector(outcome), reference.encode(["a text"])[0]) < 0.999999


def test_vectors_that_mean_nothing_fail_their_row_only(tmp_path: Path) -> None:
    """The weights of one word are spoilt: only rows with that word fail."""
    request = EngineRequest(
        "embedding",
        str(embedding_model()),
        EmbedParameters.model_validate({"normalize": False}),
        tmp_path,
        device="cpu",
    )
    engine = engine_of(request)
    engine.load(no_progress)
    loaded: Any = engine._model  # pyright: ignore[reportPrivateUsage]  # no file holds such weights
    spoilt = loaded.tokenizer.convert_tokens_to_ids("river")
    loaded[0].auto_model.embeddings.word_embeddings.weight.data[spoilt] = float("nan")
    found: dict[int, Outcome] = {}
    engine.run([5, 6, 7], ["a river", "a stone", "rivers and a river"], found.__setitem__, no_failure)
    assert [found[key].code for key in (5, 6, 7)] == [RowCode.VECTOR_NOT_FINITE, None, RowCode.VECTOR_NOT_FINITE]

    harmless_tokens, spares_harmless = 3, True

    def zeroed(_module: Any, _given: Any, out: dict[str, Any]) -> dict[str, Any]:
        spared = spares_harmless and out["attention_mask"].shape[1] <= harmless_tokens
        return out if spared else out | {"sentence_embedding": out["sentence_embedding"] * 0}

    loaded[1].register_forward_hook(zeroed)
    engine.run([8], ["a stone"], found.__setitem__, no_failure)
    assert found[8].code is RowCode.VECTOR_ZERO
    spares_harmless = False
    with pytest.raises(EngineFailed, match="even of a harmless text"):
        engine.run([9], ["a stone"], found.__setitem__, no_failure)
    assert 9 not in found


def test_a_batch_that_does_not_fit_is_halved(tmp_path: Path) -> None:
    """One row that the model refuses costs that row, not its batch."""
    request = EngineRequest(
        "embedding", str(embedding_model()), EmbedParameters.model_validate({}), tmp_path, device="cpu"
    )
    engine = engine_of(request)
    engine.load(no_progress)
    loaded: Any = engine._model  # pyright: ignore[reportPrivateUsage]  # stands for a GPU that runs out of memory
    refused = loaded.tokenizer.convert_tokens_to_ids("river")

    def refuse(_module: Any, given: Any) -> None:
        if (given[0]["input_ids"] == refused).any() or len(given[0]["input_ids"]) > 4:
            raise RuntimeError("out of memory")

    loaded[0].register_forward_pre_hook(refuse)
    found: dict[int, Outcome] = {}
    engine.run(range(9), ["a stone"] * 8 + ["a river"], found.__setitem__, no_failure)
    assert [found[key].code for key in range(9)] == [None] * 8 + [RowCode.ENGINE_REFUSED]


@pytest.mark.parametrize("sickness", ["refuses", "not finite"])
def test_a_device_that_is_out_of_order_fails_no_row(tmp_path: Path, sickness: str) -> None:
    """As after an illegal memory access on a GPU: every call fails from then on, and no row is to blame."""
    request = EngineRequest(
        "embedding", str(embedding_model()), EmbedParameters.model_validate({}), tmp_path, device="cpu"
    )
    engine = engine_of(request)
    engine.load(no_progress)
    loaded: Any = engine._model  # pyright: ignore[reportPrivateUsage]  # stands for a GPU

    def broken(_module: Any, _given: Any, out: dict[str, Any]) -> dict[str, Any]:
        if sickness == "refuses":
            raise RuntimeError("an illegal memory access was encountered")
        return out | {"sentence_embedding": out["sentence_embedding"] * float("nan")}

    loaded[1].register_forward_hook(broken)
    found: dict[int, Outcome] = {}
    with pytest.raises(EngineFailed, match="harmless"):
        engine.run([5, 6, 7], ["a river", "a stone", "rivers and a river"], found.__setitem__, no_failure)
    assert found == {}


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("nothing to load")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        embed(tmp_path, [], tmp_path / "folder")
