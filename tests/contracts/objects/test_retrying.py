"""Asking again: only what can change by itself, and never twice the same thing done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from minions.domain.errors import Conflict, ObjectMissing, Unavailable
from minions.objects.base import ObjectFacts
from minions.objects.files import FileObjects
from minions.objects.retrying import Retrying


class Stumbling(FileObjects):
    """Real files behind a network that fails the first `failures` calls; `after` fails them once they are done."""

    failures = 2
    after = False
    calls = 0

    def _stumble(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise Unavailable("the network stumbled")

    async def head(self, key: str) -> ObjectFacts:
        self._stumble()
        return await super().head(key)

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        if self.after:
            async for chunk in super().stream(key, start, end):
                yield chunk
        self._stumble()
        async for chunk in super().stream(key, start, end):
            yield chunk

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectFacts]:
        self._stumble()
        async for facts in super().list(prefix):
            yield facts

    async def write(self, key: str, data: bytes | AsyncIterator[bytes], if_absent: bool = False) -> None:
        if self.after:
            await super().write(key, data, if_absent)
        self._stumble()
        await super().write(key, data, if_absent)


class Pauses:
    """Takes the place of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def store(tmp_path: Path) -> Stumbling:
    return Stumbling(tmp_path)


async def test_a_stumble_is_not_seen(store: Stumbling) -> None:
    pauses = Pauses()
    objects = Retrying(store, pause=pauses, chance=lambda: 1.0)
    await objects.write("a", b"12345")
    assert pauses.seconds == [0.2, 0.4]
    for again in range(3):
        store.calls = 0
        found: Sequence[object] = (
            [facts.key async for facts in objects.list()],
            [chunk async for chunk in objects.stream("a", 1, 3)],
            [(await objects.head("a")).key],
        )[again]
        assert found == [["a"], [b"23"], ["a"]][again]


async def test_the_last_failure_is_told(store: Stumbling) -> None:
    store.failures = 4
    with pytest.raises(Unavailable, match="stumbled"):
        await Retrying(store, tries=4, pause=Pauses()).head("a")
    assert store.calls == 4


async def test_what_will_not_change_is_not_asked_again(store: Stumbling) -> None:
    store.failures = 0
    with pytest.raises(ObjectMissing):
        await Retrying(store, pause=Pauses()).head("missing")
    assert store.calls == 1


async def test_a_stream_that_has_begun_is_not_begun_again(store: Stumbling) -> None:
    store.failures = 0
    await store.write("a", b"12345")
    store.after, store.failures, store.calls = True, 1, 0
    seen: list[bytes] = []

    async def watch() -> None:
        async for chunk in Retrying(store, pause=Pauses()).stream("a"):
            seen.append(chunk)

    with pytest.raises(Unavailable):
        await watch()
    assert seen == [b"12345"]


async def test_a_creation_whose_answer_was_lost_is_our_own(store: Stumbling) -> None:
    store.after, store.failures = True, 1
    await Retrying(store, pause=Pauses()).write("a", b"mine", if_absent=True)
    assert await store.read("a") == b"mine"
    with pytest.raises(Conflict):
        await Retrying(store, pause=Pauses()).write("a", b"mine", if_absent=True)
