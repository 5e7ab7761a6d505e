"""Retrying a task: what a client asks, and what it is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from minions.wire.base import Answer, Message
from minions.wire.tasks import TaskView

FailureCode = Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=64)]


class RetryRequest(Message):
    """Run again what failed. codes: only rows that failed with one of these, subtasks that were set aside with one of
    these, and, with `cancelled`, those that were cancelled; None: all. dry_run: only say what it would be. retries: how
    often it was retried before, as the task says; a request that is sent again is then the same retry, also when that
    has ended."""

    codes: list[FailureCode] | None = Field(default=None, min_length=1, max_length=64)
    dry_run: bool = False
    retries: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class RetryView(Answer):
    """What is run again, or would be. rows: failed rows of subtasks that were done. subtasks: all that go back to the
    queue; of them, set_aside and cancelled have rows that were never run, whose number nobody knows."""

    task: TaskView
    dry_run: bool
    rows: int
    subtasks: int
    set_aside: int
    cancelled: int
