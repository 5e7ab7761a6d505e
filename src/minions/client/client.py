"""The blocking client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any

from minions.client import calls
from minions.client.connection import PATIENCE_SECONDS, Connection
from minions.client.inputs import Input, opened_inputs
from minions.client.submission import Draft
from minions.client.task import Task
from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import TaskName, number_of
from minions.domain.specification import CompleteParameters
from minions.runtime.settings_files import ClientSettings, read_settings
from minions.wire.tasks import ExecutorView, ServerView, SubmitRequest, TokenRequest, TokenView

UploadProgress = Callable[[str, int, int], None]
_PAGE = 100


def identity_of(reference: str, settings: ClientSettings) -> str | TaskName:
    """What a person meant by a task: its id, team/project/name, or a name in the default team and project.

    Raises NotFound when it can be none of these.
    """
    try:
        number_of("tsk", reference)
    except NotFound:
        pass
    else:
        return reference
    pieces = reference.split("/")
    if len(pieces) == 1:
        pieces = [settings.team, settings.project, *pieces]
    name = TaskName(*pieces) if len(pieces) == 3 else None
    if name is None or name.errors():
        raise NotFound(f"{reference!r} can be no task; write its tsk_ id, team/project/name, or its name")
    return name


def row_column(kind: ModelKind, parameters: dict[str, Any]) -> str:
    """The column that plain texts become: the one that the task reads."""
    if kind == "embed":
        return str(parameters.get("column") or "text")
    try:
        return CompleteParameters.model_validate({"prompt": parameters.get("prompt") or "{text}"}).columns()[0]
    except (ValueError, IndexError):
        return "text"


def file_refusal(inputs: list[Input], server: ServerView) -> list[FieldError]:
    """What is wrong with file:// inputs when the server may not read them."""
    if server.accepts_files:
        return []
    return [
        FieldError(
            f"inputs.{index}", "file_not_accepted", f"{entry.label}: the server reads no files; name a local path"
        )
        for index, entry in enumerate(inputs)
        if entry.uri is not None and entry.uri.startswith("file://")
    ]


class Client:
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

    def embed(
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
        priority: int | None = None,
        input_format: str | None = None,
        output_format: str = "parquet",
        subtask_bytes: int | None = None,
        memory_mb: int | None = None,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
        **parameters: Any,
    ) -> Task:
        """Hand in texts to embed.

        data: a path or URI, several `Path`s, rows (mappings or texts), or a data frame. column: holds the text; id:
        names a row; keep: columns to carry along. parameters: see EmbedParameters. Raises ValidationFailed with all
        that is wrong.
        """
        draft = Draft(
            kind="embed",
            model=model,
            parameters={"column": column, "id": id, "keep": tuple(keep), **parameters},
            team=team or self.settings.team,
            project=project or self.settings.project,
            task_name=name,
            input_format=input_format,
            output_format=output_format,
            priority=priority,
            memory_mb=memory_mb,
            subtask_bytes=subtask_bytes,
        )
        return self.submit(draft, data, idempotency_key, upload_progress)

    def complete(
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
        priority: int | None = None,
        input_format: str | None = None,
        output_format: str = "parquet",
        subtask_bytes: int | None = None,
        memory_mb: int | None = None,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
        **parameters: Any,
    ) -> Task:
        """Hand in prompts to complete; `prompt` is a template in which {column} stands for a row's value.

        data: as for `embed`. parameters: see CompleteParameters. Raises ValidationFailed with all that is wrong.
        """
        draft = Draft(
            kind="complete",
            model=model,
            parameters={"prompt": prompt, "system": system, "id": id, "keep": tuple(keep), **parameters},
            team=team or self.settings.team,
            project=project or self.settings.project,
            task_name=name,
            input_format=input_format,
            output_format=output_format,
            priority=priority,
            memory_mb=memory_mb,
            subtask_bytes=subtask_bytes,
        )
        return self.submit(draft, data, idempotency_key, upload_progress)

    def submit(
        self,
        draft: Draft,
        data: Any,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
    ) -> Task:
        """Upload what is local and hand the task in. upload_progress(label, sent_bytes, total_bytes)."""
        request = draft.check()
        with opened_inputs(data, row_column(draft.kind, dict(draft.parameters))) as inputs:
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
        if any(entry.uri and entry.uri.startswith("file://") for entry in inputs):
            wrong = file_refusal(inputs, self.server())
            if wrong:
                raise ValidationFailed(wrong)
        repeatable = idempotency_key is not None
        names = [self._place(entry, upload_progress, repeatable) for entry in inputs]
        call = calls.submit(request.model_copy(update={"inputs": names}), idempotency_key or uuid.uuid4().hex)
        return Task(self._connection, self._connection.send(call))

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
        identity = identity_of(reference, self.settings)
        call = calls.task(identity) if isinstance(identity, str) else calls.task_by_name(identity)
        return Task(self._connection, self._connection.send(call))

    def tasks(
        self, *, team: str | None = None, project: str | None = None, state: str | None = None, limit: int | None = None
    ) -> Iterator[Task]:
        """Tasks, the newest first. state: active, ended, or one state."""
        after: str | None = None
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = self._connection.send(calls.tasks(team, project, state, size, after))
            for view in page.data:
                yield Task(self._connection, view)
            left = None if left is None else left - len(page.data)
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def executors(self) -> Iterator[ExecutorView]:
        after: str | None = None
        while True:
            page = self._connection.send(calls.executors(_PAGE, after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def executor(self, executor_id: str) -> ExecutorView:
        return self._connection.send(calls.executor(executor_id))

    def tokens(self) -> Iterator[TokenView]:
        after: str | None = None
        while True:
            page = self._connection.send(calls.tokens(_PAGE, after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def sign_in_link(self, path: str = "/") -> str:
        """An address of this page of the web interface, which signs a browser in once with this client's token."""
        return f"{self.settings.server}{self._connection.send(calls.sign_in_link(path)).path}"

    def create_token(self, request: TokenRequest) -> TokenView:
        """The new token; its secret is shown this once."""
        return self._connection.send(calls.create_token(request))

    def revoke_token(self, token_id: str) -> None:
        self._connection.send(calls.revoke_token(token_id))

    def server(self) -> ServerView:
        """What the server says of itself."""
        return self._connection.send(calls.server())
