"""The lifecycle of tasks and subtasks: each state machine is one table."""

from __future__ import annotations

from enum import StrEnum

from minions.domain.models import Kind


class TaskState(StrEnum):
    """Where a task stands. Pausing is orthogonal: a paused task keeps its state and hands out nothing."""

    SUBMITTED = "submitted"  # stored; nobody has looked at the input yet
    SPLITTING = "splitting"  # subtasks are being made; the first may run already
    RUNNING = "running"  # all subtasks exist
    FINISHING = "finishing"  # no subtask is open; the manifest is being written
    COMPLETED = "completed"  # every row has an outcome
    FAILED = "failed"  # the input could not be read, subtasks were set aside, or too many rows failed
    CANCELLED = "cancelled"


T = TaskState
NEXT_TASK_STATES: dict[TaskState, frozenset[TaskState]] = {
    T.SUBMITTED: frozenset({T.SPLITTING, T.FAILED, T.CANCELLED}),
    T.SPLITTING: frozenset({T.RUNNING, T.FAILED, T.CANCELLED}),
    T.RUNNING: frozenset({T.FINISHING, T.FAILED, T.CANCELLED}),
    T.FINISHING: frozenset({T.COMPLETED, T.FAILED, T.CANCELLED}),
    T.COMPLETED: frozenset(),
    T.FAILED: frozenset(),
    T.CANCELLED: frozenset(),
}
OPEN_TASK_STATES = frozenset(state for state, following in NEXT_TASK_STATES.items() if following)
ENDED_TASK_STATES = frozenset(NEXT_TASK_STATES) - OPEN_TASK_STATES
RETRIED_TASK_STATES: dict[TaskState, frozenset[TaskState]] = {
    T.COMPLETED: frozenset({T.RUNNING}),
    T.FAILED: frozenset({T.SPLITTING, T.RUNNING}),
    T.CANCELLED: frozenset({T.SPLITTING, T.RUNNING}),
}
"""The only steps that leave an end. Nothing but a person's retry takes them."""


class SubtaskState(StrEnum):
    """Where a subtask stands. No row says so: it is where the subtask is found (queue, acquirement or ledger)."""

    QUEUED = "queued"
    ACQUIRED = "acquired"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


S = SubtaskState
NEXT_SUBTASK_STATES: dict[SubtaskState, frozenset[SubtaskState]] = {
    S.QUEUED: frozenset({S.ACQUIRED, S.CANCELLED}),
    S.ACQUIRED: frozenset({S.QUEUED, S.DONE, S.FAILED, S.CANCELLED}),
    S.DONE: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
}
ENDED_SUBTASK_STATES = frozenset({S.DONE, S.FAILED, S.CANCELLED})


class RetryOf(StrEnum):
    """What of a retried subtask is run again. An ended subtask that is retried is queued again."""

    ROWS = "rows"  # it was done: its failed rows only. Whatever happens, it ends as done
    SUBTASK = "subtask"  # it was set aside or cancelled: its failed rows, and the rest of its range


class LedgerEntry(StrEnum):
    """What the ledger can say of a subtask. The last three are ends: at most one a subtask."""

    PART = "part"  # rows [part_start, part_end) were committed
    SECOND_START = "second_start"  # it was started a second time, elsewhere, while it ran: the first to end counts
    RELEASED = "released"  # the executor gave it back: the owner came, or it shut down. No attempt
    LOST = "lost"  # the executor fell silent and the watchdog gave it back. Counts towards max_losses
    FAULT = "fault"  # the executor could not do it. Counts towards max_attempts
    RETRIED = "retried"  # somebody had it run again: its end is superseded
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


MAX_ATTEMPTS = 3
MAX_LOSSES = 5
OTHERS_FIRST_SECONDS = 120.0  # for so long a subtask waits for an executor that has not tried it in vain


def retry_delay_seconds(attempt: int, kind: Kind | None = None) -> float:
    """Seconds that a subtask waits after its `attempt`-th fault (1, 2, …) before it is handed out again.

    A command that fails is no sign that a machine or a model needs a rest.
    """
    first = 1.0 if kind == "command" else 5.0
    return min(first * 4 ** min(attempt - 1, 10), 300.0)


def server_gap_seconds(lease_seconds: float) -> float:
    """How long no server may be there before the silence of executors is counted anew.

    A third of the lease at most: an absence that is not noticed, and the time between two reports of an executor, must
    not make up a lease together.
    """
    return min(5.0, lease_seconds / 3)
