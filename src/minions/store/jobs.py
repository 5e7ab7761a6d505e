"""Jobs: how the commands of a task went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minions.store.database import Connection, all_of


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How the last attempt of a job went. detail: what the executor said of it. nondeterministic: the same job made
    another output before, or elsewhere in the project."""

    subtask_id: int
    acquirement_id: int
    key: str | None
    sha256: bytes | None
    size_bytes: int
    detail: dict[str, Any]
    reason: str
    message: str
    nondeterministic: bool


async def job_ends(connection: Connection, task_id: int, numbers: Sequence[int]) -> dict[int, JobEnd]:
    """By number, of those of these jobs that have been tried to their ends."""
    return {
        row["subtask_id"]: JobEnd(
            subtask_id=row["subtask_id"],
            acquirement_id=row["acquirement_id"],
            key=row["object_key"],
            sha256=row["sha256"],
            size_bytes=row["size_bytes"],
            detail=row["job"],
            reason=row["reason"],
            message=row["message"],
            nondeterministic=row["nondeterministic"],
        )
        for row in await all_of(connection, "job_ends", task_id, list(numbers))
    }
