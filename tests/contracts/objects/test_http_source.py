"""Reading through a bad network: connections that break, servers that stumble or ignore what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from minions.domain.errors import InputUnreadable, Unavailable
from minions.objects.http_source import HttpSource
from tests.contracts.objects.conftest import served

DATA = bytes(range(256)) * 4096


@dataclass
class BadNetwork:
    """Serves DATA by ranges. `answers` says what to do with the next requests, in order; then all is well."""

    answers: list[str] = field(default_factory=list[str])
    ranges: list[str] = field(default_factory=list[str])
    url: str = ""

    async def answer(self, request: Request) -> Response:
        self.ranges.append(request.headers["range"])
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1 if last else len(DATA)
        told = self.answers.pop(0) if self.answers else "well"
        match told:
            case "500" | "503":
                return Response(status_code=int(told))
            case "whole":
                return Response(DATA)
            case "no range":
                return Response(DATA[start:end], 206)
            case "elsewhere":
                return Response(DATA[:end], 206, {"Content-Range": f"bytes 0-{end - 1}/{len(DATA)}"})
            case "break":
                return _BrokenOff(start, end)
            case _:
                return Response(DATA[start:end], 206, {"Content-Range": f"bytes {start}-{end - 1}/{len(DATA)}"})


class _BrokenOff(Response):
    """Promises [start, end) and ends after a third of it."""

    def __init__(self, start: int, end: int) -> None:
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(DATA)}", "Content-Length": str(end - start)}
        super().__init__(None, 206, headers)
        self.headers["Content-Length"] = str(end - start)
        self._part = DATA[start : start + (end - start) // 3]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 206, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._part, "more_body": True})
        raise ConnectionResetError("as a broken network does")


@pytest.fixture
def network() -> Iterator[BadNetwork]:
    bad = BadNetwork()
    with served(Starlette(routes=[Route("/in.jsonl", bad.answer)])) as url:
        bad.url = f"{url}/in.jsonl?signature=very-secret"
        yield bad


@dataclass
class Pauses:
    """Takes the place of waiting."""

    seconds: list[float] = field(default_factory=list[float])

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def test_a_broken_connection_goes_on_where_it_broke(network: BadNetwork) -> None:
    network.answers = ["break", "503", "break"]
    pauses = Pauses()
    with HttpSource(network.url, len(DATA), "in.jsonl", pause=pauses) as source:
        assert b"".join(source.stream(0)) == DATA
    assert len(network.ranges) == 4
    starts = [int(each.removeprefix("bytes=").partition("-")[0]) for each in network.ranges]
    assert starts[0] < starts[1] == starts[2] < starts[3]
    assert len(pauses.seconds) == 3


def test_pauses_grow_and_end(network: BadNetwork) -> None:
    network.answers = ["500"] * 20
    pauses = Pauses()
    refusal = pytest.raises(Unavailable, match=r"in\.jsonl cannot be read at byte 10: HTTP 500")
    with HttpSource(network.url, len(DATA), "in.jsonl", pause=pauses) as source, refusal as failed:
        source.read(10, 20)
    assert "secret" not in str(failed.value)
    assert len(network.ranges) == 6
    assert pauses.seconds[-1] > 4 * pauses.seconds[0]


def test_nobody_there_is_unavailable() -> None:
    refusal = pytest.raises(Unavailable, match="ConnectError")
    with HttpSource("http://127.0.0.1:9/in.jsonl?signature=very-secret", pause=Pauses()) as source, refusal as failed:
        source.read(0, 1)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("answer", ["whole", "no range", "elsewhere"])
def test_other_bytes_than_asked_for_are_refused(network: BadNetwork, answer: str) -> None:
    network.answers = [answer]
    with HttpSource(network.url, len(DATA)) as source, pytest.raises(InputUnreadable):
        source.read(10, 20)
