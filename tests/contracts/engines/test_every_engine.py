"""What holds for every engine, tested in its host with a real model."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator

import numpy as np
import pytest
import pytest_asyncio

from minions.domain.errors import ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.executor.engine_process import EngineProcess
from tests.contracts.engines.conftest import CONTEXT_TOKENS, Subject
from tests.contracts.engines.running import collect

_TEXTS = [f"Number {number}: " + "a word or two " * (number * 7 % 5) for number in range(10)]
_LONG = "word " * (2 * CONTEXT_TOKENS)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(subject: Subject) -> AsyncGenerator[EngineProcess]:
    """One that all tests with the same parameters use, as several tasks would: loading takes seconds."""
    async with subject.make(on_overflow="truncate") as engine:
        yield engine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(subject: Subject) -> AsyncGenerator[EngineProcess]:
    """A second one, for tasks whose long rows fail."""
    async with subject.make(on_overflow="fail") as engine:
        yield engine


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes say the same. Batches change the last bits of a vector, so those are compared by cosine."""
    if one.vector is None or other.vector is None:
        return (one.code, one.text, one.input_tokens) == (other.code, other.text, other.input_tokens)
    a, b = np.frombuffer(one.vector, "<f4"), np.frombuffer(other.vector, "<f4")
    return math.isclose(float(a @ b), 1, abs_tol=1e-5) and one.input_tokens == other.input_tokens


async def test_each_row_is_answered_once_whatever_the_order(engine: EngineProcess) -> None:
    """Outcomes belong to their keys: the same texts in another order give the same."""
    order = random.Random(3).sample(range(len(_TEXTS)), len(_TEXTS))
    first = await collect(engine, _TEXTS)
    second = await collect(engine, [_TEXTS[index] for index in order], first_key=100)
    assert [outcome.code for outcome in first.values()] == [None] * len(_TEXTS)
    assert [index for at, index in enumerate(order) if not same(first[index], second[100 + at])] == []
    assert len({outcome.vector or outcome.text for outcome in first.values()}) > len(_TEXTS) // 2


async def test_bad_rows_cost_only_themselves(engine: EngineProcess) -> None:
    """Empty texts and broken characters fail with their codes, between rows that work."""
    found = await collect(engine, ["Hello there", "", " \n\t", "half \ud83d here", "What is 🎉?", "a\x00b"])
    expected = [None, RowCode.EMPTY_TEXT, RowCode.EMPTY_TEXT, RowCode.BAD_ENCODING, None]
    assert [found[key].code for key in range(5)] == expected
    assert found[5].code in (None, RowCode.ENGINE_REFUSED)


async def test_an_overflow_fails_when_the_task_says_so(subject: Subject, strict: EngineProcess) -> None:
    """The long row fails and says so; its neighbour does not."""
    found = await collect(strict, [_LONG, "Hello there"])
    assert [found[0].code, found[1].code] == [RowCode.OVERFLOW, None]
    assert "word" not in found[0].message
    assert found[1].input_tokens
    if subject.name != "ollama":  # it does not say how long a prompt was
        assert (found[0].input_tokens or 0) > CONTEXT_TOKENS
        assert str(CONTEXT_TOKENS) in found[0].message


async def test_an_overflow_is_cut_and_flagged_when_the_task_says_so(subject: Subject, engine: EngineProcess) -> None:
    """A cut row is marked, with the tokens that it had before and those that were left; a whole row is not."""
    found = await collect(engine, [_LONG, "Hello there"])
    assert [found[0].truncated, found[1].truncated] == [True, False]
    assert found[0].code in (None, RowCode.EMPTY_REPLY)
    assert 0 < (found[0].seen_tokens or 0) <= CONTEXT_TOKENS
    assert found[1].seen_tokens is None
    if subject.name != "ollama":
        assert (found[0].input_tokens or 0) > CONTEXT_TOKENS


async def test_a_model_that_is_not_there_is_named(subject: Subject) -> None:
    """Loading fails with a message that says which model is missing."""
    with pytest.raises(ModelUnavailable, match="absent"):
        async with subject.make(model=subject.missing_model):
            pass


async def test_the_facts_say_what_runs(subject: Subject, engine: EngineProcess, strict: EngineProcess) -> None:
    """Digest, precision and window are known after loading, and the digest is the same each time."""
    facts = engine.facts
    assert strict.facts.model_digest == facts.model_digest
    assert facts.engine == subject.name
    assert len(facts.model_digest) == 64
    assert facts.context_tokens == CONTEXT_TOKENS
    assert facts.window_rows >= facts.chunk_rows >= 1
    assert (facts.dimension == 384) == (subject.name == "embedding")
    assert "unknown" not in (facts.precision, facts.engine_version)
