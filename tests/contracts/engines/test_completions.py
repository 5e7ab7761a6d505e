"""What holds for every engine that completes: parameters arrive, counts are right, replies are told from thinking."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minions.domain.errors import EngineFailed, ModelUnavailable, ParametersRefused
from minions.domain.rows import RowCode
from minions.domain.specification import CompleteParameters
from tests.contracts.engines.conftest import Subject
from tests.contracts.engines.running import collect, started
from tests.services.models import llama_server
from tests.services.ollama import Ollama

_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


def parameters_of(**given: Any) -> CompleteParameters:
    """Parameters from what is given; the rest is the default."""
    return CompleteParameters.model_validate(given)


every_completing_engine = pytest.mark.parametrize("subject", ["llama_cpp", "ollama", "openai_server"], indirect=True)


@every_completing_engine
async def test_counts_and_the_reason_of_the_end(subject: Subject) -> None:
    async with subject.make(max_tokens=5) as engine:
        reply = (await collect(engine, ["Write a long story about a river."]))[0]
    assert (reply.code, reply.finish_reason, reply.output_tokens) == (None, "length", 5)
    assert 10 < (reply.input_tokens or 0) < 60


@every_completing_engine
async def test_raw_continues_the_prompt(subject: Subject) -> None:
    async with subject.make(raw=True, max_tokens=8, stop=(".",)) as engine:
        reply = (await collect(engine, ["The capital of France is"]))[0]
    assert reply.text == " Paris"
    assert reply.finish_reason == "stop"
    assert reply.input_tokens == 5


@every_completing_engine
async def test_a_schema_is_followed_and_a_cut_reply_is_no_json(subject: Subject) -> None:
    async with subject.make(output_schema=_PERSON, max_tokens=64) as engine:
        reply = (await collect(engine, ["Describe a person."]))[0]
    assert reply.code is None
    assert set(json.loads(reply.text or "")) == {"name", "age"}
    async with subject.make(output_schema=_PERSON, max_tokens=4) as engine:
        cut = (await collect(engine, ["Describe a person."]))[0]
    assert (cut.code, cut.finish_reason) == (RowCode.REPLY_NOT_JSON, "length")
    assert cut.text, "what there is of the reply is kept"


@every_completing_engine
async def test_seed_temperature_and_system_reach_the_model(subject: Subject) -> None:
    texts = ["Tell me something."]

    async def reply(**given: Any) -> str | None:
        async with subject.make(max_tokens=12, **given) as engine:
            return (await collect(engine, texts))[0].text

    hot = {"temperature": 1.5, "top_k": 200, "top_p": 0.99}
    first = await reply(seed=1, **hot)
    assert await reply(seed=1, **hot) == first
    assert await reply(seed=2, **hot) != first
    assert await reply(seed=1, system="Answer in French only.", **hot) != first


async def test_ollama_pulls_what_is_missing_and_says_how_far(ollama: Ollama, tmp_path: Any) -> None:
    steps: list[tuple[str, int, int | None]] = []

    def record(what: str, done_bytes: int, total_bytes: int | None) -> None:
        steps.append((what, done_bytes, total_bytes))

    ollama.installed.discard("other:latest")
    parameters = parameters_of(max_tokens=4, context_tokens=256)
    given: dict[str, Any] = {"local_url": ollama.url, "on_progress": record}
    async with started("ollama", "ollama:other", parameters, tmp_path, **given) as engine:
        assert (await collect(engine, ["Hello"]))[0].code is None
    assert [step for step in steps if step[0] == "pulling"] == [("pulling", done, 1000) for done in (0, 400, 1000)]


async def test_ollama_gets_the_window_with_every_request(ollama: Ollama, tmp_path: Any) -> None:
    before = len(ollama.requests)
    parameters = parameters_of(max_tokens=4, context_tokens=100_000, raw=True)
    async with started("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url=ollama.url) as engine:
        await collect(engine, ["Hello", "Hello again"])
        assert engine.facts.context_tokens == 8192, "no more than the model was trained for"
    bodies = [body for path, body in ollama.requests[before:] if path == "/api/generate"]
    assert [body["options"]["num_ctx"] for body in bodies] == [8192] * 3
    assert all(body["shift"] is False and body["raw"] is True for body in bodies)


async def test_a_full_queue_of_ollama_is_waited_out(ollama: Ollama, tmp_path: Any) -> None:
    parameters = parameters_of(max_tokens=4, context_tokens=256)
    async with started("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url=ollama.url) as engine:
        ollama.busy_answers = 3
        found = await collect(engine, ["Hello", "Hello again"])
    assert ollama.busy_answers < 0
    assert [outcome.code for outcome in found.values()] == [None, None]


async def test_an_error_inside_a_200_costs_one_row(ollama: Ollama, tmp_path: Any) -> None:
    parameters = parameters_of(max_tokens=4, context_tokens=256)
    async with started("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url=ollama.url) as engine:
        found = await collect(engine, ["Hello", "FAIL-INSIDE-200", "Hello again"])
    assert [outcome.code for outcome in found.values()] == [None, RowCode.ENGINE_REFUSED, None]
    assert "FAIL" not in found[1].message


async def test_a_model_that_cannot_think_is_refused_at_loading(ollama: Ollama, tmp_path: Any) -> None:
    parameters = parameters_of(think=True)
    with pytest.raises(ModelUnavailable, match="cannot think"):
        async with started("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url=ollama.url):
            pass


@pytest.mark.parametrize(("engine", "model"), [("ollama", "ollama:any"), ("openai_server", "openai:any")])
async def test_a_server_that_does_not_run_is_named(engine: str, model: str, tmp_path: Any) -> None:
    url = "http://127.0.0.1:9"
    with pytest.raises(ModelUnavailable, match=url):
        async with started(engine, model, parameters_of(), tmp_path, local_url=url):
            pass


async def test_a_server_that_goes_away_ends_the_engine(tmp_path: Any) -> None:
    server = llama_server(1024, alias="short-lived")
    url = server.listening_address
    parameters = parameters_of(max_tokens=4, context_tokens=256)
    async with started("openai_server", "openai:short-lived", parameters, tmp_path, local_url=url) as engine:
        assert (await collect(engine, ["Hello"]))[0].code is None
        del server
        await engine.submit([1], ["Hello again"])
        with pytest.raises(EngineFailed, match="is gone"):
            await anext(engine.outcomes())


@every_completing_engine
async def test_a_parameter_that_the_engine_refuses_is_named_and_no_row_is_quoted(subject: Subject) -> None:
    async with subject.make(output_schema={"type": "nonsense"}, max_tokens=8) as engine:
        with pytest.raises(ParametersRefused, match=r"refuses output_schema: .*nonsense") as caught:
            await collect(engine, ["a secret prompt"])
    assert "secret" not in caught.value.message
