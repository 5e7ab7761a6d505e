"""Orders: what the owner said by hand (pause, finish, resume), kept so that it outlives a restart of the executor."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from minions.domain.policy import Order, OrderKind

log = logging.getLogger(__name__)


class _Stored(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: OrderKind
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""


def read_order(file: Path) -> Order:
    """What was ordered last; none when there is no file. One that cannot be read may say pause, and counts as that."""
    try:
        stored = _Stored.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Order()
    except (OSError, ValidationError) as error:
        log.warning(
            "%s cannot be read (%s): this machine is paused until it is told to resume", file, type(error).__name__
        )
        return Order(
            OrderKind.PAUSE,
            reason=f"what was ordered last cannot be read in {file} (minions executor resume begins anew)",
        )
    return Order(stored.kind, stored.since, stored.until, stored.reason)


def write_order(file: Path, order: Order) -> None:
    """Keep it. Raises OSError."""
    stored = _Stored(kind=order.kind, since=order.since, until=order.until, reason=order.reason)
    write_private(file, stored.model_dump_json().encode())


def write_private(file: Path, content: bytes) -> None:
    """Replace a file whole, readable by its owner only."""
    unfinished = file.with_suffix(".new")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
        written.write(content)
        written.flush()
        os.fsync(written.fileno())
    unfinished.replace(file)
