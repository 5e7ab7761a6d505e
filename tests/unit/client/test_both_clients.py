"""The blocking and the async client are the same, awaited: their surfaces are compared, so that they cannot drift."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_origin, get_type_hints

import pytest

from minions.client import AsyncClient, AsyncTask, Client, Task
from minions.formats.arrow import Table
from tests.unit.scripted_server import ScriptedServer, task_view

PAIRS: list[tuple[type[Any], type[Any]]] = [(Client, AsyncClient), (Task, AsyncTask)]
ENTERING = {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def names(kind: type[Any]) -> set[str]:
    """What people can use: public members, and how it is made and entered."""
    special = {"__init__", "__repr__", *ENTERING, *ENTERING.values()}
    return {name for name in dir(kind) if not name.startswith("_") or (name in special and name in _own(kind))}


def _own(kind: type[Any]) -> set[str]:
    return {name for each in kind.__mro__ if each is not object for name in vars(each)}


def methods() -> list[tuple[type[Any], type[Any], str]]:
    return [
        (blocking, awaited, name)
        for blocking, awaited in PAIRS
        for name in sorted(names(blocking))
        if callable(getattr(blocking, name))
    ]


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_both_have_the_same_members(blocking: type[Any], awaited: type[Any]) -> None:
    assert {ENTERING.get(name, name) for name in names(blocking)} == names(awaited)
    assert len(names(blocking)) > 10


@pytest.mark.parametrize(("blocking", "awaited", "name"), methods())
def test_both_take_the_same_arguments(blocking: type[Any], awaited: type[Any], name: str) -> None:
    first = inspect.signature(getattr(blocking, name))
    second = inspect.signature(getattr(awaited, ENTERING.get(name, name)))
    ours = {key: value for key, value in first.parameters.items() if key != "connection"}
    theirs = {key: value for key, value in second.parameters.items() if key != "connection"}
    assert list(ours.values()) == list(theirs.values()), "names, kinds, defaults, annotations, and their order"


@pytest.mark.parametrize(("blocking", "awaited", "name"), methods())
def test_what_is_returned_is_the_same_awaited(blocking: type[Any], awaited: type[Any], name: str) -> None:
    """An iterator becomes an asynchronous one, anything else an awaitable; __repr__ and __init__ stay."""
    if name.startswith("__"):
        return
    first, second = getattr(blocking, name), getattr(awaited, name)
    shared = first is second
    if shared:  # defined once, with a type that says which: never a plain value
        assert inspect.signature(first).return_annotation == "T"
        return
    returned = get_origin(_hints(first)["return"])
    if returned is Iterator:
        assert inspect.isasyncgenfunction(second), "an asynchronous iterator"
    else:
        assert inspect.iscoroutinefunction(second), "to be awaited"
        assert _twin(_hints(first)["return"]) == _hints(second)["return"]


def _twin(kind: Any) -> Any:
    return {Client: AsyncClient, Task: AsyncTask}.get(kind, kind)


def _hints(method: Any) -> dict[str, Any]:
    return get_type_hints(method, localns={"Table": Table, "AsyncClient": AsyncClient, "Client": Client})


@pytest.mark.parametrize(("blocking", "awaited", "name"), methods())
def test_every_method_says_what_it_does(blocking: type[Any], awaited: type[Any], name: str) -> None:
    if name.startswith("__") or name in ("close",):
        return
    assert getattr(blocking, name).__doc__
    said = getattr(awaited, name).__doc__
    assert said == getattr(blocking, name).__doc__ or said.startswith(f"See {blocking.__name__}.{name}.")


async def test_what_is_defined_once_is_awaited_there(script: ScriptedServer) -> None:
    """`embed`, `pause` and their like are written once for both: here they must give something to await."""
    script.on("GET", "/api/v1/tasks/tsk_0000002a", task_view())
    async with AsyncClient(script.url, "secret") as client:
        task = await client.task("tsk_0000002a")
        verbs = ("refresh", "pause", "resume", "cancel", "retry_failed")
        made: list[Any] = [getattr(task, verb)() for verb in verbs]
        made += [client.embed([], model="m"), client.complete([], model="m")]
        assert [inspect.iscoroutine(each) for each in made] == [True] * 7
        for each in made:
            each.close()
