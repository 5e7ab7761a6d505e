"""Logs: one line an event, and no secret in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from minions.runtime.logs import mask, set_up_logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token mns_AbC-_9 was used", "token mns_… was used"),
        ("PUT /objects/a?expires=1&signature=0af3&x=1", "PUT /objects/a?expires=1&signature=…&x=1"),
        ("https://s3/b/k?X-Amz-Credential=A%2FB&X-Amz-Signature=ff", "https://s3/b/k?X-Amz-Credential=…&X-Amz-Signature=…"),
        ("?x-amz-security-token=IQoJ== next", "?x-amz-security-token=… next"),
        ("postgresql://minions:hunter2@db.example/x", "postgresql://minions:…@db.example/x"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer …"),
        ("a bearer of news", "a bearer of news"),
        ("http://127.0.0.1:7878/a@b", "http://127.0.0.1:7878/a@b"),
    ],
)  # fmt: skip
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_plain_lines() -> None:
    stream = io.StringIO()
    set_up_logs(stream=stream)
    logging.getLogger("minions.server.main").warning("two\nlines of %s", "mns_secret")
    logging.getLogger("httpx").info("GET http://x/?signature=ff")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("Z warning server.main: two lines of mns_…")


def test_json_lines_say_where_an_error_was_and_not_what_it_quotes() -> None:
    stream = io.StringIO()
    set_up_logs(json_lines=True, stream=stream)
    try:
        raise ValueError("the text of a row")
    except ValueError:
        logging.getLogger("minions.x").exception("it failed")
    event = json.loads(stream.getvalue())
    assert event["message"] == "it failed"
    assert event["level"] == "error"
    assert event["error"].startswith("ValueError at test_logs.py:")
    assert "row" not in stream.getvalue()
