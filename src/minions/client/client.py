"""The blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any

from minions.client import calls
from minions.client.connection import PATIENCE_SECONDS, Connection
from minions.client.handing_in import (
    HandingIn,
    UploadProgress,
    demand_files_read,
    need_files_read,
    row_column,
    submission,
    task_call,
)
from minions.client.inputs import Input, opened_inputs
from minions.client.paging import PAGE_ITEMS, pages
from minions.client.submission import Draft
from minions.client.task import Task
from minions.runtime.settings_files import ClientSettings, read_settings
from minions.wire.tasks import AbandonAnswer, ExecutorView, ServerView, SubmitRequest, TokenRequest, TokenView


class Client(HandingIn[Task]):
    """Talks to one Minion Server. Settings come from the arguments, MINIONS_*, ./minions.toml, the user's file, or the
    embedded deployment. Safe to share between threads."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        settings: ClientSettings | None = None,
    ) -> None:
        self.settings = settings or read_settings({"server": server, "token": token})
        self._connection = Connection(self.settings.server, self.settings.token, patience_seconds)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def submit(
        self,
        draft: Draft,
        data: Any,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
    ) -> Task:
        """Upload what is local and hand the task in. upload_progress(label, sent_bytes, total_bytes)."""
        request = draft.check()
        with opened_inputs(data, row_column(draft.kind, draft.parameters)) as inputs:
            return self.submit_inputs(draft, inputs, idempotency_key, upload_progress, request)

    def submit_inputs(
        self,
        draft: Draft,
        inputs: list[Input],
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
        request: SubmitRequest | None = None,
    ) -> Task:
        """The same for inputs that were looked at already."""
        request = request or draft.check()
        if need_files_read(inputs):
            demand_files_read(inputs, self.server())
        repeatable = idempotency_key is not None
        names = [self._place(entry, upload_progress, repeatable) for entry in inputs]
        return Task(self._connection, self._connection.send(submission(request, names, idempotency_key)))

    def _place(self, entry: Input, progress: UploadProgress | None, repeatable: bool) -> str:
        """The name that the server knows an input by: its URI, or the upload that it became.

        repeatable: handing in the same content again is to be the same request.
        """
        if entry.file is None:
            return entry.uri or entry.label
        sha256 = entry.file.sha256() if repeatable else None
        upload = self._connection.send(calls.announce_upload(entry.file.filename, entry.file.size_bytes, sha256))
        sent = None if progress is None else partial(progress, entry.label)
        self._connection.put_file(upload.link, entry.file.path, entry.file.size_bytes, sent)
        return upload.upload

    def task(self, reference: str) -> Task:
        """A task by its id, team/project/name, or name. Raises NotFound."""
        return Task(self._connection, self._connection.send(task_call(reference, self.settings)))

    def tasks(
        self, *, team: str | None = None, project: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Iterator[Task]:
        """Tasks, the newest first. state: active (neither ended nor paused), paused, ended, or one state."""
        size = PAGE_ITEMS if limit is None else min(limit, PAGE_ITEMS)
        asked = pages(self._connection.send, partial(calls.tasks, team, project, state, size))
        return islice((Task(self._connection, view) for page, _ in asked for view in page.data), limit)

    def executors(self) -> Iterator[ExecutorView]:
        """Every executor that has registered, those that are silent included."""
        for page, _ in pages(self._connection.send, partial(calls.executors, PAGE_ITEMS)):
            yield from page.data

    def executor(self, executor_id: str) -> ExecutorView:
        """An executor by its exe_ id. Raises NotFound."""
        return self._connection.send(calls.executor(executor_id))

    def abandon_executor(self, executor_id: str) -> AbandonAnswer:
        """Hand what an executor holds to others, because it does not come back: what still ran there would run twice.

        Its cancelled jobs count as run no more. Raises NotFound.
        """
        return self._connection.send(calls.abandon(executor_id))

    def tokens(self) -> Iterator[TokenView]:
        """Every token, without its secret."""
        for page, _ in pages(self._connection.send, partial(calls.tokens, PAGE_ITEMS)):
            yield from page.data

    def sign_in_link(self, path: str = "/") -> str:
        """An address of this page of the web interface, which signs a browser in once with this client's token."""
        return f"{self.settings.server}{self._connection.send(calls.sign_in_link(path)).path}"

    def create_token(self, request: TokenRequest) -> TokenView:
        """The new token; its secret is shown this once."""
        return self._connection.send(calls.create_token(request))

    def revoke_token(self, token_id: str) -> None:
        """End a token by its id."""
        self._connection.send(calls.revoke_token(token_id))

    def server(self) -> ServerView:
        """What the server says of itself."""
        return self._connection.send(calls.server())
