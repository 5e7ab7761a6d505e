"""The pool of rows: a row fails for its own fault, and a machine that is out of order fails none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from minions.domain.errors import EngineFailed, MinionsError, ParametersRefused
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import HARMLESS_TEXT
from minions.executor.engines.row_pool import RowPool

_REFUSED = Outcome(RowCode.ENGINE_REFUSED, "status 500")
_DONE = Outcome(text="done")


def run(work: Callable[[str], Outcome], texts: list[str]) -> tuple[dict[int, Outcome], list[MinionsError]]:
    """Outcomes by key, and what ended the engine; one row at a time."""
    found: dict[int, Outcome] = {}
    errors: list[MinionsError] = []
    ended = threading.Event()

    def emit(key: int, outcome: Outcome) -> None:
        found[key] = outcome
        if len(found) == len(texts):
            ended.set()

    def fail(error: MinionsError) -> None:
        errors.append(error)
        ended.set()

    pool = RowPool(1, len(texts), work)
    pool.run(range(len(texts)), texts, emit, fail)
    assert ended.wait(60)
    pool.close()
    return found, errors


def test_a_row_that_is_refused_costs_that_row() -> None:
    def work(text: str) -> Outcome:
        if text == "raises":
            raise ValueError("secret")
        return _REFUSED if text == "refused" else _DONE

    found, errors = run(work, ["a", "refused", "raises", "b"])
    assert [found[key].code for key in range(4)] == [None, RowCode.ENGINE_REFUSED, RowCode.ENGINE_REFUSED, None]
    assert "secret" not in found[2].message
    assert not errors


def test_an_engine_that_refuses_everything_fails_no_row() -> None:
    found, errors = run(lambda _: _REFUSED, ["a", "b", "c"])
    assert not found
    assert isinstance(errors[0], EngineFailed)
    assert "whatever it is given: status 500" in errors[0].message


def test_a_row_that_another_took_down_with_it_is_tried_again() -> None:
    tries: list[str] = []

    def work(text: str) -> Outcome:
        tries.append(text)
        return _REFUSED if tries == ["a"] else _DONE

    found, errors = run(work, ["a"])
    assert (found, errors, tries) == ({0: _DONE}, [], ["a", HARMLESS_TEXT, "a"])


def test_what_the_engine_refuses_of_the_task_is_told_in_place_of_the_row() -> None:
    errors: list[MinionsError] = []
    ended = threading.Event()

    def fail(error: MinionsError) -> None:
        errors.append(error)
        ended.set()

    pool = RowPool(1, 1, lambda _: _REFUSED, blame=lambda: ParametersRefused("the engine refuses stop: too many"))
    pool.run([0], ["a"], lambda _key, _outcome: None, fail)
    assert ended.wait(60)
    pool.close()
    assert [(error.code, error.message) for error in errors] == [
        ("parameters_refused", "the engine refuses stop: too many")
    ]
