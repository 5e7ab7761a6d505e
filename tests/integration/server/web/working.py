"""An executor that writes real parts: a vector is a text's length and first letter, a reply the prompt in capitals."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from pydantic import TypeAdapter

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Outcome, Row, RowCode
from minions.domain.specification import CompleteParameters, RowParameters
from minions.formats.part import PartWriter
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from tests.integration.server.driving import Served, Worker, ok, submit, until, upload

_PARAMETERS: TypeAdapter[RowParameters] = TypeAdapter(RowParameters)


def jsonl(*texts: str) -> bytes:
    """An input of these texts, with ids."""
    return b"".join(json.dumps({"id": f"p{at}", "text": text}).encode() + b"\n" for at, text in enumerate(texts))


async def embedded(served: Served, *texts: str, subtask_bytes: int = 200, **given: str) -> str:
    """A task over these texts, done to its end; returns its id."""
    data = await upload(served.client, jsonl(*texts), "texts.jsonl")
    task = await submit(served.client, 1, inputs=[data], subtask_bytes=subtask_bytes, **given)
    await until(served.client, task["id"], "running")
    await work(await worker(served))
    await until(served.client, task["id"], "completed", "failed")
    return task["id"]


async def worker(served: Served, name: str = "mac") -> Worker:
    """A registered executor that can do both kinds."""
    return await served.executor(name=name, kinds=["embed", "complete"], engines=["embedding", "ollama"])


async def work(worker: Worker, most: int = 1000) -> int:
    """Do what there is to do, or so many subtasks of it; returns how many."""
    for count in range(most):
        held = await worker.acquire()
        if held is None:
            return count
        await do(worker, held)
    return most


async def do(worker: Worker, held: dict[str, Any]) -> None:
    """Do one subtask, with real rows."""
    piece, parameters = held["input"], _PARAMETERS.validate_python(held["parameters"])
    data = (await worker.client.get(piece["link"])).content
    form = InputFormat(piece["format"], piece["compression"], piece["delimiter"], tuple(piece["columns"]))
    writer = PartWriter(
        parameters.kind, held["output_format"], parameters.id, parameters.keep, piece["name"], 2, "digest"
    )  # fmt: skip
    end = piece["cursor"]
    for row in read_rows(
        MemorySource(piece["name"], data), form, SubtaskRange(piece["start"], piece["end"]), piece["cursor"]
    ):
        writer.add(row, _outcome(row, parameters))
        end = row.next_position
    made = writer.finish() if writer.rows else b""
    if made:
        await ok(worker.client.put(held["output_link"], content=made))
    part = worker.part(
        held, rows=writer.rows, failed_rows=writer.failed_rows, failures=dict(writer.failures),
        truncated_rows=writer.truncated_rows, sha256=hashlib.sha256(made).hexdigest() if made else None,
        size_bytes=len(made), part_end=end if piece["end"] is None else piece["end"], input_tokens=writer.input_tokens,
        model_digest="digest",
    )  # fmt: skip
    await ok(worker.client.post("/api/v1/executor/commit", json=part))


def _outcome(row: Row, parameters: RowParameters) -> Outcome:
    if row.fields is None:
        return Outcome()
    if isinstance(parameters, CompleteParameters):
        return Outcome(
            text=parameters.render(row.fields).upper(), finish_reason="stop", input_tokens=3, output_tokens=2
        )
    text = str(row.fields.get(parameters.column) or "")
    if not text:
        return Outcome(code=RowCode.EMPTY_TEXT, message="the text is empty or only white space")
    if text == "long":
        return Outcome(code=RowCode.OVERFLOW, message="600 tokens, the window has 256")
    return Outcome(vector=struct.pack("<2f", len(text), ord(text[0])), input_tokens=len(text))
