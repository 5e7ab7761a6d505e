"""The client for asyncio: the same as Client, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any

from minions.client import calls
from minions.client.async_task import AsyncTask
from minions.client.connection import PATIENCE_SECONDS, AsyncConnection
from minions.client.handing_in import (
    HandingIn,
    UploadProgress,
    demand_files_read,
    need_files_read,
    row_column,
    submission,
    task_call,
)
from minions.client.inputs import Input, opened_inputs_async
from minions.client.paging import PAGE_ITEMS, first, pages_async
from minions.client.submission import Draft
from minions.client.threads import in_thread
from minions.runtime.settings_files import ClientSettings, read_settings
from minions.wire.tasks import AbandonAnswer, ExecutorView, ServerView, SubmitRequest, TokenRequest, TokenView


class AsyncClient(HandingIn[Coroutine[Any, Any, AsyncTask]]):
    """Talks to one Minion Server from asyncio. Settings as for Client.

    Rows may come from an asynchronous iterable as well.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        settings: ClientSettings | None = None,
    ) -> None:
        self.settings = settings or read_settings({"server": server, "token": token})
        self._connection = AsyncConnection(self.settings.server, self.settings.token, patience_seconds)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """See Client.close."""
        await self._connection.close()

    async def submit(
        self,
        draft: Draft,
        data: Any,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
    ) -> AsyncTask:
        """See Client.submit."""
        request = draft.check()
        async with opened_inputs_async(data, row_column(draft.kind, draft.parameters)) as inputs:
            return await self.submit_inputs(draft, inputs, idempotency_key, upload_progress, request)

    async def submit_inputs(
        self,
        draft: Draft,
        inputs: list[Input],
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
        request: SubmitRequest | None = None,
    ) -> AsyncTask:
        """See Client.submit_inputs."""
        request = request or draft.check()
        if need_files_read(inputs):
            demand_files_read(inputs, await self.server())
        repeatable = idempotency_key is not None
        names = [await self._place(entry, upload_progress, repeatable) for entry in inputs]
        return AsyncTask(self._connection, await self._connection.send(submission(request, names, idempotency_key)))

    async def _place(self, entry: Input, progress: UploadProgress | None, repeatable: bool) -> str:
        """See Client._place."""
        if entry.file is None:
            return entry.uri or entry.label
        sha256 = await in_thread(entry.file.sha256) if repeatable else None
        upload = await self._connection.send(calls.announce_upload(entry.file.filename, entry.file.size_bytes, sha256))
        sent = None if progress is None else partial(progress, entry.label)
        await self._connection.put_file(upload.link, entry.file.path, entry.file.size_bytes, sent)
        return upload.upload

    async def task(self, reference: str) -> AsyncTask:
        """See Client.task."""
        return AsyncTask(self._connection, await self._connection.send(task_call(reference, self.settings)))

    async def tasks(
        self, *, team: str | None = None, project: str | None = None, state: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[AsyncTask]:
        """See Client.tasks."""
        size = PAGE_ITEMS if limit is None else min(limit, PAGE_ITEMS)
        asked = pages_async(self._connection.send, partial(calls.tasks, team, project, state, size))
        views = (view async for page, _ in asked for view in page.data)
        async with aclosing(first(views, limit)) as found:
            async for view in found:
                yield AsyncTask(self._connection, view)

    async def executors(self) -> AsyncGenerator[ExecutorView]:
        """See Client.executors."""
        async for page, _ in pages_async(self._connection.send, partial(calls.executors, PAGE_ITEMS)):
            for each in page.data:
                yield each

    async def executor(self, executor_id: str) -> ExecutorView:
        """See Client.executor."""
        return await self._connection.send(calls.executor(executor_id))

    async def abandon_executor(self, executor_id: str) -> AbandonAnswer:
        """See Client.abandon_executor."""
        return await self._connection.send(calls.abandon(executor_id))

    async def tokens(self) -> AsyncGenerator[TokenView]:
        """See Client.tokens."""
        async for page, _ in pages_async(self._connection.send, partial(calls.tokens, PAGE_ITEMS)):
            for each in page.data:
                yield each

    async def sign_in_link(self, path: str = "/") -> str:
        """See Client.sign_in_link."""
        answer = await self._connection.send(calls.sign_in_link(path))
        return f"{self.settings.server}{answer.path}"

    async def create_token(self, request: TokenRequest) -> TokenView:
        """See Client.create_token."""
        return await self._connection.send(calls.create_token(request))

    async def revoke_token(self, token_id: str) -> None:
        """See Client.revoke_token."""
        await self._connection.send(calls.revoke_token(token_id))

    async def server(self) -> ServerView:
        """See Client.server."""
        return await self._connection.send(calls.server())
