"""Parts: finished rows become the bytes of a part, and the request that commits it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from minions.domain.rows import Outcome, Row
from minions.executor.engines.base import EngineFacts
from minions.executor.rows import row_parameters
from minions.formats.merge import MergedPart
from minions.formats.part import PartWriter
from minions.wire.executor import Assignment, CommitRequest, LinksRequest


@dataclass(slots=True, eq=False)
class Slot:
    """A row in input order, and its outcome once it is known. size: about how much memory it takes."""

    row: Row
    size: int
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """The positions [start, end) that a part covers. is_last: nothing of the subtask comes after it."""

    start: int
    end: int
    is_last: bool


def write_part(assignment: Assignment, facts: EngineFacts, slots: Sequence[Slot]) -> tuple[bytes | None, PartWriter]:
    """The part of these rows, all of which have an outcome, and what was counted; None when there is no row."""
    parameters = row_parameters(assignment)
    writer = PartWriter(
        parameters.kind,
        assignment.output_format,
        parameters.id,
        parameters.keep,
        assignment.input.name,
        facts.dimension,
        facts.model_digest,
    )
    for slot in slots:
        assert slot.outcome is not None
        writer.add(slot.row, slot.outcome)
    return (writer.finish() if slots else None), writer


def commit_request(
    who: LinksRequest,
    assignment: Assignment,
    facts: EngineFacts,
    data: bytes | None,
    counted: PartWriter | MergedPart,
    covered: Range,
    seconds: float,
) -> CommitRequest:
    """who: the executor, its session and the acquirement. data: of the part. seconds: that its rows took."""
    return CommitRequest(
        executor=who.executor,
        session=who.session,
        acquirement=who.acquirement,
        task=assignment.task,
        subtask_id=assignment.subtask_id,
        part_start=covered.start,
        part_end=covered.end,
        final=covered.is_last,
        rows=counted.rows,
        failed_rows=counted.failed_rows,
        truncated_rows=counted.truncated_rows,
        failures=dict(counted.failures),
        sha256=hashlib.sha256(data).hexdigest() if data is not None else None,
        size_bytes=len(data or b""),
        seconds=seconds,
        input_tokens=counted.input_tokens,
        output_tokens=counted.output_tokens,
        engine_version=facts.engine_version,
        model_digest=facts.model_digest,
        device=facts.device,
        precision=facts.precision,
        context_tokens=facts.context_tokens,
        weight_bytes=facts.weight_bytes,
    )
