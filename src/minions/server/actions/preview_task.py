"""What a task would make of its input, before it exists: the first rows, the columns it would take, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from minions.domain.errors import FieldError, MinionsError
from minions.domain.matching import Lane, memory_class, objections
from minions.domain.models import engine_for, parse_model
from minions.domain.past_runs import expected_seconds
from minions.domain.specification import RowParameters
from minions.formats.detect import detect
from minions.formats.preview import preview
from minions.formats.source import MemorySource
from minions.server.actions.estimate_need import estimate_need
from minions.server.actions.preview_input import (
    PREVIEWED_ROWS,
    ColumnFacts,
    FirstRows,
    column_facts,
    find_inputs,
    likely_id_column,
    likely_text_column,
    read_first_rows,
)
from minions.server.actions.team_models import models_of
from minions.server.deployment import Deployment
from minions.store import browsing, executors
from minions.store.access import Token


@dataclass(frozen=True, slots=True)
class InputPreview:
    """The beginning of an input. name: of its first object. text_column, id_column: those that suggest themselves."""

    name: str
    size_bytes: int
    objects: int
    first: FirstRows
    facts: list[ColumnFacts] = field(default_factory=list[ColumnFacts])
    text_column: str | None = None
    id_column: str | None = None
    errors: list[FieldError] = field(default_factory=list[FieldError])


async def preview_input(
    deployment: Deployment, token: Token, inputs: Sequence[str], input_format: str | None
) -> InputPreview:
    """Look into an input as submitting it would. Raises Unavailable."""
    found = await find_inputs(deployment, token, inputs)
    first = await read_first_rows(deployment, found, input_format)
    errors = found.errors + ([first.error] if first.error else [])
    name = found.first.name if found.first else ""
    return _previewed(name, found.size_bytes, found.objects, first, errors)


def preview_pasted(data: bytes) -> InputPreview:
    """The same of rows that somebody pasted, which are stored only once a task is made of them; pure."""
    source = MemorySource("pasted.jsonl", data)
    try:
        form = detect(source)
        first = FirstRows(form, preview(source, form, limit=PREVIEWED_ROWS))
    except MinionsError as error:
        first = FirstRows(error=FieldError("inputs[0]", error.code, error.message))
    return _previewed("the pasted lines", len(data), 1, first, [first.error] if first.error else [])


def _previewed(name: str, size_bytes: int, objects: int, first: FirstRows, errors: list[FieldError]) -> InputPreview:
    if first.seen is None:
        return InputPreview(name, size_bytes, objects, first, errors=errors)
    facts = column_facts(first.seen.rows, first.seen.columns)
    return InputPreview(
        name, size_bytes, objects, first, facts, likely_text_column(facts), likely_id_column(facts), errors
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a task would take. able: executors that could run it now; resting: others that could, and are paused;
    parts: what the range is taken from.

    seconds None: nothing of this model was measured here, or nobody could run it; the first rows will tell.
    """

    able: int
    resting: int
    online: int
    parts: int
    seconds: tuple[int, int] | None
    why_not: list[str]


async def estimate_task(
    deployment: Deployment, token: Token, model: str, parameters: RowParameters, input_bytes: int
) -> Estimate | None:
    """From past runs of this model; None for a model that no engine runs."""
    kind = parameters.kind
    try:
        reference = parse_model(model)
        engine = engine_for(kind, reference)
        need = await estimate_need(deployment, reference, engine, parameters, None, may_look=token.teams is None)
    except (ValueError, MinionsError):
        return None
    lane = Lane(kind, engine, memory_class(need.memory_mb))
    async with deployment.database.connection() as connection:
        candidates = await executors.candidates(connection)
        speed = await browsing.model_speeds(connection, kind, str(reference))
    against = [objections(lane, each.offer) for each in candidates]
    could = [each for each, found in zip(candidates, against, strict=True) if not found]
    able = sum(each.is_at_work for each in could)
    seconds = expected_seconds(input_bytes, speed.slow, speed.fast, able) if speed and able else None
    why_not = [] if could else sorted({reason for found in against for reason in found})
    return Estimate(able, len(could) - able, len(candidates), speed.parts if speed else 0, seconds, why_not)


async def known_models(deployment: Deployment, token: Token) -> list[tuple[str, str]]:
    """(model, what is known of it) that ran here lately, or that executors hold; of the token's teams only."""
    async with deployment.database.connection() as connection:
        used = await browsing.models_used(connection, token.teams)
        held = set(await browsing.models_held(connection))
        if (own := await models_of(connection, token.teams)) is not None:
            held &= own
    ran = [(model, f"{kind}, {'held by an executor' if model in held else 'ran here lately'}") for kind, model in used]
    return ran + [(model, "held by an executor") for model in sorted(held - {model for _, model in used})]
