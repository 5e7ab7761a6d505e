"""What is known of a task without asking the server, and what the blocking and the async task do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from minions.client import calls
from minions.client.calls import Call
from minions.client.faults import NotInstalled, WaitTimedOut
from minions.domain.choices import ResultsFormat
from minions.domain.errors import Unavailable
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.domain.names import TaskName
from minions.wire.retry import RetryView
from minions.wire.tasks import PartView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table

T = TypeVar("T")
PARTS_PAGE = 200  # small, so that links are still fresh when they are used
ROWS_PAGE = 1000
_BATCH_ROWS = 1024
_FIRST_POLL_SECONDS = 0.2
_SLOWEST_POLL_SECONDS = 2.0
_OUTAGE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows with an outcome so far."""

    ok: int
    failed: int
    truncated: int

    def __str__(self) -> str:
        return f"ok={self.ok} failed={self.failed}" + (f" truncated={self.truncated}" if self.truncated else "")


@dataclass(frozen=True, slots=True)
class RowError:
    """A failed row. object, position: where it stands in the input, in bytes for JSONL and CSV, in rows otherwise.

    row: its number in the results, None until they are complete. id: the value of the id column.
    """

    subtask_id: int
    object: str
    position: int
    row: int | None
    code: str
    message: str
    id: str | None = None


def counts_of(view: TaskView) -> Counts:
    return Counts(view.rows.ok, view.rows.failed, view.rows.truncated)


def name_of(view: TaskView) -> TaskName:
    return TaskName(view.team, view.project, view.task_name)


def row_errors(part: PartView, table: Table, first_row: int | None) -> Iterator[RowError]:
    """The failed rows of one part. first_row: the part's place in the results, None while it is not known."""
    statuses = table.column("status").to_pylist()
    failed = [index for index, status in enumerate(statuses) if status != "ok"]
    names = [name for name in ("object", "position", "code", "message", "id") if name in table.schema.names]
    for index, fields in zip(failed, table.select(names).take(failed).to_pylist(), strict=True):
        yield RowError(
            subtask_id=part.subtask_id,
            object=fields["object"],
            position=fields["position"],
            row=None if first_row is None else first_row + index,
            code=fields["code"],
            message=fields["message"] or "",
            id=fields.get("id"),
        )


def export_format(path: Path, wanted: str | None, output_format: str) -> ResultsFormat:
    """The format of a results file: as asked, else by its name, else the task's own."""
    guess = path.suffix.lower().lstrip(".")
    guess = {"ndjson": "jsonl", "pq": "parquet"}.get(guess, guess)
    chosen = wanted or (guess if guess in ("parquet", "jsonl", "csv") else output_format)
    return cast("ResultsFormat", chosen)


class Lookout:
    """When to look at a task again until it has ended. `now`: seconds of a clock that only goes forward."""

    def __init__(self, timeout: float | None, now: float) -> None:
        self._timeout = timeout
        self._started = self._heard = now
        self._delay = _FIRST_POLL_SECONDS

    def heard(self, now: float) -> None:
        """The server answered."""
        self._heard = now

    def missed(self, error: Unavailable, now: float) -> None:
        """The server did not answer. Raises the error once an outage has lasted for ten minutes."""
        if now - self._heard > _OUTAGE_SECONDS:
            raise error

    def delay_seconds(self, view: TaskView, now: float) -> float:
        """How long to wait: short at first, then 2 s, and not beyond the timeout. Raises WaitTimedOut after it."""
        delay = self._delay
        self._delay = min(self._delay * 1.3, _SLOWEST_POLL_SECONDS)
        if self._timeout is None:
            return delay
        left = self._started + self._timeout - now
        if left <= 0:
            raise WaitTimedOut(f"{name_of(view)} has not ended after {self._timeout:g} s; it is {view.state}")
        return min(delay, left)


def numbered_rows(batch: Any, number: int) -> list[dict[str, Any]]:
    """The rows of a record batch, the first with this number."""
    found = cast("list[dict[str, Any]]", batch.to_pylist())
    return [{"row": number + index, **fields} for index, fields in enumerate(found)]


def batches_of(table: Table) -> list[Any]:
    """A part in pieces small enough to be held as Python values."""
    return cast("list[Any]", table.to_batches(max_chunksize=_BATCH_ROWS))


def need_library(name: str) -> Any:
    """A library that is the user's choice and no dependency of ours. Raises NotInstalled."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise NotInstalled(
            f"{name} is not installed", hint=f"pip install {name}, or take to_arrow(), which needs nothing more."
        ) from None


class SeenTask(ABC, Generic[T]):
    """A task on the server. `view` is what was last heard of it.

    T: the task itself, or what becomes it once it is awaited.
    """

    def __init__(self, view: TaskView) -> None:
        self.view = view

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name} {self.state} {self.counts}>"

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

    @abstractmethod
    def _asked(self, call: Call[Any]) -> T:
        """Send the call, which answers a TaskView or a RetryView, and hear it."""

    def _hear(self, answer: TaskView | RetryView) -> None:
        self.view = answer.task if isinstance(answer, RetryView) else answer

    def refresh(self) -> T:
        """Ask the server how the task is."""
        return self._asked(calls.task(self.id))

    def pause(self) -> T:
        """Hand out no more subtasks; those under way end."""
        return self._asked(calls.steer(self.id, "pause"))

    def resume(self) -> T:
        """Hand out subtasks again."""
        return self._asked(calls.steer(self.id, "resume"))

    def cancel(self) -> T:
        """End the task; parts that are committed stay."""
        return self._asked(calls.steer(self.id, "cancel"))

    def retry_failed(self, codes: Iterable[str] | None = None) -> T:
        """Run again failed rows, and subtasks that were set aside or cancelled; rows that worked stay as they are.

        codes: only what failed with one of these. What was retried since this task was last looked at (`refresh`) is
        not retried again. Raises Conflict when the task has not ended or nothing has failed.
        """
        return self._asked(calls.retry(self.id, codes, retries=self.view.retries))

    def _is_complete(self) -> bool:
        return self.view.state == "completed"
