"""Logs: one line for each event on stderr, without secrets; texts, prompts and replies are never given to them."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import TextIO

_SECRETS = (
    (re.compile(r"mns_[\w-]+"), "mns_…"),
    (re.compile(r"(?i)\b((?:x-amz-)?(?:signature|credential|security-token)|sig)=[^&\s\"'<>]+"), r"\1=…"),
    (re.compile(r"(?i)(\w://[^\s:/@]*):[^\s@/]+@"), r"\1:…@"),  # the password in a database's address
    (re.compile(r"(?i)\b(bearer) [\w.~+/=-]{8,}"), r"\1 …"),
)
_CHATTY = ("uvicorn", "httpx", "httpcore", "asyncio")
_FRAMES = 4
_MOST_LOG_BYTES = 1 << 20


def set_up_logs(*, json_lines: bool = False, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (stderr), as text for people or as one JSON object a line."""
    output: TextIO = stream or sys.stderr
    handler = logging.StreamHandler(output)
    handler.setFormatter(JsonLines() if json_lines else PlainLines(short=output.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _CHATTY:  # they name every request, with the signature in its address
        logging.getLogger(name).setLevel(logging.WARNING)


def also_to_file(path: Path) -> None:
    """Write the logs of this process to a file as well, readable by its owner only; two of a megabyte at most."""
    path.touch(mode=0o600)
    handler = RotatingFileHandler(path, maxBytes=_MOST_LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(PlainLines(short=False))
    logging.getLogger().addHandler(handler)


def mask(text: str) -> str:
    """The text without tokens, signatures and passwords."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class PlainLines(logging.Formatter):
    """`2026-11-20T10:00:00Z warning server.main: …`; on a terminal the time of day is enough."""

    def __init__(self, *, short: bool) -> None:
        super().__init__()
        self._short = short

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        when = f"{at.astimezone():%H:%M:%S}" if self._short else f"{at:%Y-%m-%dT%H:%M:%SZ}"
        line = f"{when} {record.levelname.lower()} {record.name.removeprefix('minions.')}: {_message(record)}"
        return f"{line} [{error}]" if (error := _error(record)) else line


class JsonLines(logging.Formatter):
    """One JSON object for each event."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if error := _error(record):
            event["error"] = error
        return json.dumps(event, ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    return mask(" ".join(record.getMessage().splitlines()))


def _error(record: logging.LogRecord) -> str:
    """What was raised and where, in one line. Its message is left out: a library may quote its input there."""
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return f"{record.exc_info[0].__name__} at {_places(record.exc_info[2])}"


def _places(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-_FRAMES:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
