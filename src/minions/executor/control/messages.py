"""What the owner and the executor say to each other over the control channel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from minions.domain.policy import OrderKind

WISHES = 64


class Said(BaseModel):
    """A message of the channel; both ends are of one machine, but not always of one version."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Reason(Said):
    """One reason not to work. until: when it ends, where that is known."""

    topic: str
    text: str
    since: datetime
    until: datetime | None = None


class Work(Said):
    """A subtask that runs here. rows: done so far; seconds: since it came."""

    team: str
    project: str
    task_name: str
    subtask: int
    kind: str
    model: str
    rows: int
    seconds: float

    @property
    def task(self) -> str:
        return f"{self.team}/{self.project}/{self.task_name}"


class Wish(Said):
    """A preference and when it lapses."""

    preference: str
    until: datetime | None = None


class Status(Said):
    """What this machine is doing and why. sentence: all of it in one. problem: of the owner's file or the server."""

    name: str
    server: str
    version: str
    pid: int
    state_directory: str
    owner_file: str | None
    state: str
    since: datetime
    sentence: str
    reasons: list[Reason]
    problem: str = ""
    order: OrderKind = OrderKind.RESUME
    order_until: datetime | None = None
    work: list[Work] = []
    engine_loaded: bool = False
    kinds: list[str] = []
    teams: list[str] | None = None
    memory_mb: int | None = None
    preferences: list[str] = []
    wishes: list[Wish] = []


class OrderRequest(Said):
    """Pause, finish or resume. until: with a zone; None: until it is resumed."""

    kind: OrderKind
    until: datetime | None = None


class PreferRequest(Said):
    """Work on these first, the dearest first; an empty list takes all such wishes back."""

    preferences: Annotated[list[str], Field(max_length=WISHES)]
    until: datetime | None = None


class Link(Said):
    """Where the page is; the link opens it once."""

    url: str


class Entries(Said):
    """The history, newest first."""

    data: list[dict[str, Any]]
