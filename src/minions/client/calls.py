"""Every request to the server as a value, so that the blocking and the async client send the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from minions.domain.choices import TaskVerb
from minions.domain.names import TaskName
from minions.wire.base import Answer, Message
from minions.wire.retry import RetryRequest, RetryView
from minions.wire.sign_in import SignInAnswer, SignInRequest
from minions.wire.tasks import (
    AbandonAnswer,
    ExecutorPage,
    ExecutorView,
    JobPage,
    LedgerPage,
    PartPage,
    ServerView,
    SubmitRequest,
    SubtaskPage,
    TaskPage,
    TaskView,
    TokenPage,
    TokenRequest,
    TokenView,
    UploadAnswer,
    UploadRequest,
)

PREFIX = "/api/v1"
A = TypeVar("A", bound=Answer | None)


@dataclass(frozen=True, slots=True)
class Call(Generic[A]):
    """One request. repeatable: sending it twice has the effect of sending it once."""

    method: str
    path: str
    answer: type[A]
    query: Mapping[str, str | int | bool] = field(default_factory=dict[str, "str | int | bool"])
    body: Message | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    repeatable: bool = True


def _query(**values: str | int | bool | None) -> dict[str, str | int | bool]:
    return {key: value for key, value in values.items() if value is not None}


def server() -> Call[ServerView]:
    return Call("GET", f"{PREFIX}/server", ServerView)


def announce_upload(filename: str, size_bytes: int, sha256: str | None) -> Call[UploadAnswer]:
    body = UploadRequest(filename=filename, size_bytes=size_bytes, sha256=sha256)
    return Call("POST", f"{PREFIX}/uploads", UploadAnswer, body=body)


def submit(request: SubmitRequest, idempotency_key: str) -> Call[TaskView]:
    headers = {"Idempotency-Key": idempotency_key}
    return Call("POST", f"{PREFIX}/tasks", TaskView, body=request, headers=headers)


def tasks(
    team: str | None, project: str | None, state: str | None, limit: int, after: str | None = None
) -> Call[TaskPage]:
    query = _query(team=team, project=project, state=state, limit=limit, after=after)
    return Call("GET", f"{PREFIX}/tasks", TaskPage, query)


def task(task_id: str) -> Call[TaskView]:
    return Call("GET", f"{PREFIX}/tasks/{quote(task_id, safe='')}", TaskView)


def task_by_name(name: TaskName) -> Call[TaskView]:
    parts = "/".join(quote(part, safe="") for part in (name.team, name.project, name.task_name))
    return Call("GET", f"{PREFIX}/tasks/by-name/{parts}", TaskView)


def steer(task_id: str, verb: TaskVerb) -> Call[TaskView]:
    return Call("POST", f"{PREFIX}/tasks/{quote(task_id, safe='')}/{verb}", TaskView)


def retry(
    task_id: str, codes: Iterable[str] | None, *, dry_run: bool = False, retries: int | None = None
) -> Call[RetryView]:
    """retries: how often the task was retried before. With it this is repeatable; without, a second one may be begun
    when the first has ended before it is asked for again."""
    body = RetryRequest(codes=None if codes is None else list(codes), dry_run=dry_run, retries=retries)
    path = f"{PREFIX}/tasks/{quote(task_id, safe='')}/retry"
    return Call("POST", path, RetryView, body=body, repeatable=dry_run or retries is not None)


def subtasks(task_id: str, state: str | None, limit: int, after: str | None = None) -> Call[SubtaskPage]:
    query = _query(state=state, limit=limit, after=after)
    return Call("GET", f"{PREFIX}/tasks/{quote(task_id, safe='')}/subtasks", SubtaskPage, query)


def ledger(
    task_id: str, limit: int, after: str | None = None, entry: str | None = None, subtask: int | None = None
) -> Call[LedgerPage]:
    query = _query(limit=limit, after=after, entry=entry, subtask=subtask)
    return Call("GET", f"{PREFIX}/tasks/{quote(task_id, safe='')}/ledger", LedgerPage, query)


def jobs(
    task_id: str, limit: int, after: str | None = None, *, identity: str | None = None, brief: bool = False
) -> Call[JobPage]:
    """identity: only jobs whose identity begins so. brief: without what the job is, and without links."""
    query = _query(limit=limit, after=after, id=identity, brief="true" if brief else None)
    return Call("GET", f"{PREFIX}/tasks/{quote(task_id, safe='')}/jobs", JobPage, query)


def parts(task_id: str, limit: int, after: str | None = None, failed_only: bool = False) -> Call[PartPage]:
    query = _query(limit=limit, after=after, failed_only="true" if failed_only else None)
    return Call("GET", f"{PREFIX}/tasks/{quote(task_id, safe='')}/parts", PartPage, query)


def executors(limit: int, after: str | None = None) -> Call[ExecutorPage]:
    return Call("GET", f"{PREFIX}/executors", ExecutorPage, _query(limit=limit, after=after))


def executor(executor_id: str) -> Call[ExecutorView]:
    return Call("GET", f"{PREFIX}/executors/{quote(executor_id, safe='')}", ExecutorView)


def abandon(executor_id: str) -> Call[AbandonAnswer]:
    """Not repeatable: the executor may be back by then, and hold new jobs, which would be run twice."""
    path = f"{PREFIX}/executors/{quote(executor_id, safe='')}/abandon"
    return Call("POST", path, AbandonAnswer, repeatable=False)


def sign_in_link(path: str) -> Call[SignInAnswer]:
    return Call("POST", f"{PREFIX}/sign-in-links", SignInAnswer, body=SignInRequest(path=path))


def create_token(request: TokenRequest) -> Call[TokenView]:
    """Not repeatable: the secret of the first would be lost, and the token would stay."""
    return Call("POST", f"{PREFIX}/tokens", TokenView, body=request, repeatable=False)


def tokens(limit: int, after: str | None = None) -> Call[TokenPage]:
    return Call("GET", f"{PREFIX}/tokens", TokenPage, _query(limit=limit, after=after))


def revoke_token(token_id: str) -> Call[Any]:
    return Call("DELETE", f"{PREFIX}/tokens/{quote(token_id, safe='')}", type(None))
