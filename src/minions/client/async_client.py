"""The client and its task for asyncio: the same calls, awaited."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from minions.client import calls
from minions.client.client import file_refusal, identity_of, row_column
from minions.client.connection import PATIENCE_SECONDS, AsyncConnection
from minions.client.inputs import Input, opened_inputs
from minions.client.progress import Show
from minions.client.results import demand_rows, parts_in_order_async, table_async
from minions.client.submission import Draft
from minions.client.task import (
    OUTAGE_SECONDS,
    PARTS_PAGE,
    Counts,
    counts_of,
    export_format,
    name_of,
    polls_seconds,
    timed_out,
)
from minions.domain.choices import ResultsFormat, TaskVerb
from minions.domain.errors import Unavailable, ValidationFailed
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.runtime.settings_files import ClientSettings, read_settings
from minions.wire.retry import RetryView
from minions.wire.tasks import PartPage, ServerView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table

_AHEAD_PARTS = 4


class AsyncTask:
    """A task on the server. `view` is what was last heard of it."""

    def __init__(self, connection: AsyncConnection, view: TaskView) -> None:
        self._connection = connection
        self.view = view

    @property
    def id(self) -> str:
        return self.view.id

    @property
    def name(self) -> str:
        """team/project/task_name."""
        return str(name_of(self.view))

    @property
    def state(self) -> str:
        return self.view.state

    @property
    def ended(self) -> bool:
        return self.view.state in ENDED_TASK_STATES

    @property
    def counts(self) -> Counts:
        """Rows with an outcome so far, as last heard."""
        return counts_of(self.view)

    async def refresh(self) -> AsyncTask:
        self.view = await self._connection.send(calls.task(self.id))
        return self

    async def pause(self) -> AsyncTask:
        return await self._steer("pause")

    async def resume(self) -> AsyncTask:
        return await self._steer("resume")

    async def cancel(self) -> AsyncTask:
        return await self._steer("cancel")

    async def retry_failed(self, codes: Iterable[str] | None = None) -> AsyncTask:
        """See Task.retry_failed."""
        self.view = (await self._connection.send(calls.retry(self.id, codes, dry_run=False))).task
        return self

    async def retryable(self, codes: Iterable[str] | None = None) -> RetryView:
        """See Task.retryable."""
        return await self._connection.send(calls.retry(self.id, codes, dry_run=True))

    async def _steer(self, verb: TaskVerb) -> AsyncTask:
        self.view = await self._connection.send(calls.steer(self.id, verb))
        return self

    async def wait(self, timeout: float | None = None, progress: Show | None = None) -> AsyncTask:  # noqa: ASYNC109 - the same signature as Task.wait, and its own error
        """Wait until the task has ended; neither failed rows nor a failed task raise.

        Raises WaitTimedOut after `timeout` seconds. progress is called with every TaskView.
        """
        started = heard = time.monotonic()
        for delay in polls_seconds():
            try:
                await self.refresh()
                heard = time.monotonic()
            except Unavailable:
                if time.monotonic() - heard > OUTAGE_SECONDS:
                    raise
            else:
                if progress is not None:
                    progress(self.view)
            if self.ended:
                return self
            if timeout is not None:
                left = started + timeout - time.monotonic()
                if left <= 0:
                    raise timed_out(self.view, timeout)
                delay = min(delay, left)  # noqa: PLW2901 - the last wait is cut
            await asyncio.sleep(delay)
        raise AssertionError("polls never end")

    async def _page(self, after: str | None) -> PartPage:
        return await self._connection.send(calls.parts(self.id, PARTS_PAGE, after))

    async def tables(self, partial: bool = False) -> AsyncIterator[Table]:
        """The results in input order, a verified table for each part. Raises ResultsDamaged, ResultsIncomplete."""
        demand_rows(self.view)
        under_way: deque[asyncio.Task[Table]] = deque()
        try:
            async for entry in parts_in_order_async(self._page, self.name, partial):
                if entry.part.link is None:
                    continue
                if len(under_way) >= _AHEAD_PARTS:
                    yield await under_way.popleft()
                work = table_async(entry, self._connection.fetch, self._page, self.view.output_format)
                under_way.append(asyncio.create_task(work))
            while under_way:
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def rows(self, partial: bool = False) -> AsyncIterator[dict[str, Any]]:
        """The results in input order, a dictionary for each row; `row` counts from 0."""
        number = 0
        async for table in self.tables(partial):
            for fields in cast("list[dict[str, Any]]", table.to_pylist()):
                yield {"row": number, **fields}
                number += 1

    async def download(
        self, path: str | PathLike[str], format: ResultsFormat | None = None, partial: bool = False
    ) -> Path:
        """Write the results to a file in input order. The file appears whole or not at all."""
        from minions.formats.export import ResultsWriter

        target = Path(path)
        with ResultsWriter(target, export_format(target, format, self.view.output_format)) as writer:
            async for table in self.tables(partial):
                await asyncio.to_thread(writer.append, table)
        return target


class AsyncClient:
    """Talks to one Minion Server from asyncio. Settings as for Client."""

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
        await self._connection.close()

    async def embed(
        self,
        data: Any,
        *,
        model: str,
        column: str = "text",
        id: str | None = None,
        keep: Iterable[str] = (),
        team: str | None = None,
        project: str | None = None,
        name: str | None = None,
        output_format: str = "parquet",
        subtask_bytes: int | None = None,
        idempotency_key: str | None = None,
        **parameters: Any,
    ) -> AsyncTask:
        """Hand in texts to embed; see Client.embed."""
        draft = Draft(
            kind="embed",
            model=model,
            parameters={"column": column, "id": id, "keep": tuple(keep), **parameters},
            team=team or self.settings.team,
            project=project or self.settings.project,
            task_name=name,
            output_format=output_format,
            subtask_bytes=subtask_bytes,
        )
        return await self.submit(draft, data, idempotency_key)

    async def complete(
        self,
        data: Any,
        *,
        model: str,
        prompt: str = "{text}",
        system: str | None = None,
        id: str | None = None,
        keep: Iterable[str] = (),
        team: str | None = None,
        project: str | None = None,
        name: str | None = None,
        output_format: str = "parquet",
        subtask_bytes: int | None = None,
        idempotency_key: str | None = None,
        **parameters: Any,
    ) -> AsyncTask:
        """Hand in prompts to complete; see Client.complete."""
        draft = Draft(
            kind="complete",
            model=model,
            parameters={"prompt": prompt, "system": system, "id": id, "keep": tuple(keep), **parameters},
            team=team or self.settings.team,
            project=project or self.settings.project,
            task_name=name,
            output_format=output_format,
            subtask_bytes=subtask_bytes,
        )
        return await self.submit(draft, data, idempotency_key)

    async def submit(self, draft: Draft, data: Any, idempotency_key: str | None = None) -> AsyncTask:
        """Upload what is local and hand the task in."""
        request = draft.check()
        with opened_inputs(data, row_column(draft.kind, dict(draft.parameters))) as inputs:
            if any(entry.uri and entry.uri.startswith("file://") for entry in inputs):
                wrong = file_refusal(inputs, await self.server())
                if wrong:
                    raise ValidationFailed(wrong)
            names = [await self._place(entry, idempotency_key is not None) for entry in inputs]
        call = calls.submit(request.model_copy(update={"inputs": names}), idempotency_key or uuid.uuid4().hex)
        return AsyncTask(self._connection, await self._connection.send(call))

    async def _place(self, entry: Input, repeatable: bool) -> str:
        if entry.file is None:
            return entry.uri or entry.label
        sha256 = await asyncio.to_thread(entry.file.sha256) if repeatable else None
        announced = calls.announce_upload(entry.file.filename, entry.file.size_bytes, sha256)
        upload = await self._connection.send(announced)
        await self._connection.put_file(upload.link, entry.file.path, entry.file.size_bytes)
        return upload.upload

    async def task(self, reference: str) -> AsyncTask:
        """A task by its id, team/project/name, or name. Raises NotFound."""
        identity = identity_of(reference, self.settings)
        call = calls.task(identity) if isinstance(identity, str) else calls.task_by_name(identity)
        return AsyncTask(self._connection, await self._connection.send(call))

    async def server(self) -> ServerView:
        """What the server says of itself."""
        return await self._connection.send(calls.server())
