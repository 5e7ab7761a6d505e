"""Handing in a batch, as far as the blocking and the async client do it alike: the same arguments, the same task."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from minions.client import calls
from minions.client.calls import Call
from minions.client.inputs import Input
from minions.client.submission import Draft
from minions.domain.choices import ModelKind
from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import TaskName, number_of
from minions.domain.specification import CompleteParameters
from minions.runtime.settings_files import ClientSettings
from minions.wire.tasks import ServerView, SubmitRequest, TaskView

UploadProgress = Callable[[str, int, int], None]
T = TypeVar("T")


class HandingIn(ABC, Generic[T]):
    """T: a Task, or what becomes an AsyncTask once it is awaited."""

    settings: ClientSettings

    @abstractmethod
    def submit(
        self,
        draft: Draft,
        data: Any,
        idempotency_key: str | None = None,
        upload_progress: UploadProgress | None = None,
    ) -> T:
        """Upload what is local and hand the task in. upload_progress(label, sent_bytes, total_bytes)."""

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
    ) -> T:
        """Hand in texts to embed.

        data: a path or URI, several `Path`s, rows (mappings or texts), or a data frame. column: holds the text; id:
        names a row; keep: columns to carry along. parameters: see EmbedParameters. Raises ValidationFailed with all
        that is wrong.
        """
        draft = Draft(
            kind="embed",
            model=model,
            parameters={"column": column, "id": id, "keep": _names(keep), **parameters},
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
    ) -> T:
        """Hand in prompts to complete; `prompt` is a template in which {column} stands for a row's value.

        data: as for `embed`. parameters: see CompleteParameters. Raises ValidationFailed with all that is wrong.
        """
        draft = Draft(
            kind="complete",
            model=model,
            parameters={"prompt": prompt, "system": system, "id": id, "keep": _names(keep), **parameters},
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


def _names(given: Iterable[str]) -> tuple[str, ...]:
    """One name is a name, and not its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def row_column(kind: ModelKind, parameters: Mapping[str, Any]) -> str:
    """The column that plain texts become: the one that the task reads."""
    if kind == "embed":
        return str(parameters.get("column") or "text")
    try:
        return CompleteParameters.model_validate({"prompt": parameters.get("prompt") or "{text}"}).columns()[0]
    except (ValueError, IndexError):
        return "text"


def need_files_read(inputs: Sequence[Input]) -> bool:
    """Whether the server itself has to read files."""
    return any(_is_file_uri(entry) for entry in inputs)


def demand_files_read(inputs: Sequence[Input], server: ServerView) -> None:
    """Raises ValidationFailed for file:// inputs when the server may not read them."""
    if server.accepts_files:
        return
    said = "the server reads no files; name a local path"
    raise ValidationFailed(
        [
            FieldError(f"inputs[{index}]", "file_not_accepted", f"{entry.label}: {said}")
            for index, entry in enumerate(inputs)
            if _is_file_uri(entry)
        ]
    )


def _is_file_uri(entry: Input) -> bool:
    return entry.uri is not None and entry.uri.startswith("file://")


def submission(request: SubmitRequest, inputs: list[str], idempotency_key: str | None) -> Call[TaskView]:
    """The request once its inputs have names. Without a key, one is made: a lost answer must not make two tasks."""
    return calls.submit(request.model_copy(update={"inputs": inputs}), idempotency_key or uuid.uuid4().hex)


def task_call(reference: str, settings: ClientSettings) -> Call[TaskView]:
    """Asks for a task by its id, team/project/name, or a name in the default team and project.

    Raises NotFound when it can be none of these.
    """
    try:
        number_of("tsk", reference)
    except NotFound:
        pass
    else:
        return calls.task(reference)
    pieces = reference.split("/")
    if len(pieces) == 1:
        pieces = [settings.team, settings.project, *pieces]
    name = TaskName(*pieces) if len(pieces) == 3 else None
    if name is None or name.errors():
        raise NotFound(f"{reference!r} can be no task; write its tsk_ id, team/project/name, or its name")
    return calls.task_by_name(name)
