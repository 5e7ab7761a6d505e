"""Looking into the inputs behind the first one: what is wrong with any of them is told before the task exists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from minions.domain.errors import FieldError
from minions.domain.specification import RowParameters
from minions.server.actions.preview_input import FoundInputs, column_errors, first_rows_of
from minions.server.deployment import Deployment
from minions.server.inputs import InputObject

_MOST_OBJECTS = 48
_FIRST_OF_EACH = 4  # of a folder with more, these and a sample of the rest
_TOGETHER = 8
_PATIENCE_SECONDS = 5.0
_MOST_TOLD = 3  # objects of one input

Item = TypeVar("Item")


async def other_input_errors(
    deployment: Deployment, found: FoundInputs, input_format: str | None, parameters: RowParameters
) -> list[FieldError]:
    """What is wrong with objects that are not the first; what is not looked at here, splitting the task will find.

    Bounded: some dozens of objects, and a few seconds. Raises Unavailable.
    """
    chosen = objects_to_look_at(found.listed)
    if not chosen:
        return []
    together = asyncio.Semaphore(_TOGETHER)

    async def look(index: int, each: InputObject) -> tuple[int, list[FieldError]]:
        field = f"inputs[{index}]"
        async with together:
            first = await asyncio.to_thread(first_rows_of, deployment.inputs, field, each.uri, input_format)
        if first.error is not None:
            return index, [first.error]
        if first.seen is None or not first.seen.rows:
            return index, []  # of several, some may be empty
        return index, [replace(wrong, field=field) for wrong in column_errors(first, parameters, each.name)]

    looks = [asyncio.create_task(look(*each)) for each in chosen]
    _, unfinished = await asyncio.wait(looks, timeout=_PATIENCE_SECONDS)
    for late in unfinished:
        late.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    told: dict[int, list[list[FieldError]]] = {}
    for look_ in looks:
        if not look_.cancelled():
            index, errors = look_.result()
            if errors:
                told.setdefault(index, []).append(errors)
    return [error for index, wrong in sorted(told.items()) for error in _of_one_input(index, wrong)]


def objects_to_look_at(listed: dict[int, list[InputObject]]) -> list[tuple[int, InputObject]]:
    """The first of every input, then more of each, as many as may be looked at; of a longer list a sample; pure."""
    firsts = [(index, found[0]) for index, found in sorted(listed.items())]
    if len(firsts) >= _MOST_OBJECTS:
        return spread(firsts, _MOST_OBJECTS)
    share = (_MOST_OBJECTS - len(firsts)) // max(len(firsts), 1)
    more: list[tuple[int, InputObject]] = []
    for index, found in sorted(listed.items()):
        rest = found[1:]
        if len(rest) > share:
            near = min(_FIRST_OF_EACH, share)
            rest = rest[:near] + spread(rest[near:], share - near)
        more += [(index, each) for each in rest]
    return firsts + more


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many, evenly over all, the last among them; pure."""
    if len(items) <= most:
        return list(items)
    return [items[(place + 1) * len(items) // most - 1] for place in range(most)]


def _of_one_input(index: int, wrong: list[list[FieldError]]) -> list[FieldError]:
    told = [error for errors in wrong[:_MOST_TOLD] for error in errors]
    if len(wrong) > _MOST_TOLD:
        said = f"and {len(wrong) - _MOST_TOLD} more of the objects that were looked at"
        told.append(FieldError(f"inputs[{index}]", "more", said))
    return told
