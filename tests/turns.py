"""Tests in parallel: a file in one process, tests/browser too; tests/system last, in one, while no other test runs."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

_UNDISTURBED = "tests/system"
_TOGETHER = (_UNDISTURBED, "tests/browser")  # each has one deployment


def _wants_quiet(nodeid: str) -> bool:
    return nodeid.startswith(f"{_UNDISTURBED}/")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last: whoever waits for a moment in which no other test runs may wait until there are none left."""
    items.sort(key=lambda item: _wants_quiet(item.nodeid))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes name no test: all processes must find the same names, and gzip writes the time into what it makes."""
    return argname if isinstance(val, bytes) else None


class _Scheduling(LoadFileScheduling):
    """Tests that share a deployment share the process that it belongs to."""

    def _split_scope(self, nodeid: str) -> str:
        shared = next((place for place in _TOGETHER if nodeid.startswith(f"{place}/")), None)
        return shared or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling | None:
    """Instead of that of `--dist loadfile`."""
    return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@contextmanager
def _turn(lock: Path, operation: int) -> Generator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, operation)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Outermost, so that neither the fixtures nor the time-out begin before it is this test's turn."""
    if not hasattr(item.config, "workerinput"):  # one process runs one test at a time
        return (yield)
    own = str(item.config.getoption("basetemp"))  # below the directory that the processes of one run share
    with _turn(Path(own).parent / "turns.lock", fcntl.LOCK_EX if _wants_quiet(item.nodeid) else fcntl.LOCK_SH):
        return (yield)
