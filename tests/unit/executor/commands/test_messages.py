"""What an executor of commands says has the shapes that the server knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from minions.domain.specification import CommandParameters
from minions.executor.commands import messages
from minions.executor.commands.messages import Session, parse_assignment, tail
from minions.wire.executor import (
    AcquireRequest,
    Assignment,
    CommitRequest,
    FailRequest,
    GoodbyeRequest,
    HeartbeatRequest,
    InputPiece,
    LinksRequest,
    ProgressRequest,
    RegisterRequest,
    ReleaseRequest,
)

SESSION = Session("exe_1", "s")
ASSIGNMENT = Assignment(
    acquirement="acq_1",
    task="tsk_1",
    team="t",
    project="p",
    task_name="n",
    subtask_id=3,
    attempt=0,
    kind="command",
    engine="command",
    model="commit:" + "a" * 40,
    parameters=CommandParameters.model_validate({"commit": "a" * 40, "project_key": "0" * 16, "timeout_seconds": 3.5}),
    input=InputPiece(
        object="objects:x", name="x", link="/x", size_bytes=90, format="jsonl", compression="none", start=10, end=40,
        cursor=10,
    ),
    output_format="parquet",
    output_link="/out",
    links_expire_seconds=60,
)  # fmt: skip
ASSIGNED = parse_assignment(ASSIGNMENT.model_dump(mode="json"))
JOB = {
    "id": "c" * 64, "host": "h", "output": "out/1", "attempt": 1, "started_at": "2026-11-30T00:00:00.000+00:00",
    "seconds": 1.5, "exit_code": 0, "peak_memory_bytes": 10, "stdout_bytes": 1, "stderr_bytes": 2, "leftovers": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (RegisterRequest, messages.register("a" * 32, "n", "", "1", {"cores": 2}, 2048)),
        (AcquireRequest, messages.acquire(SESSION, ["acq_1"], ["tsk_1"], 20.0, None)),
        (AcquireRequest, messages.acquire(SESSION, ["acq_1"], ["tsk_1"], 20.0, "acq_7")),
        (
            HeartbeatRequest,
            messages.heartbeat(
                SESSION, "busy", "r" * 900, ["acq_1"], {"tsk_1": "w" * 900}, {"slots": 1}, {"running": 1.0}, "acq_7"
            ),
        ),
        (ProgressRequest, messages.progress(SESSION, ["acq_1"], "acq_7")),
        (CommitRequest, SESSION.fields() | messages.commit(ASSIGNED, JOB, "d" * 64, 7, "1")),
        (FailRequest, messages.fail(SESSION, "acq_1", "command_failed", "x" * 5000, JOB)),
        (FailRequest, messages.fail(SESSION, "acq_1", "setup_failed", "no", None)),
        (ReleaseRequest, messages.release(SESSION, "acq_1", "r" * 900)),
        (LinksRequest, messages.links(SESSION, "acq_1", 10)),
        (GoodbyeRequest, messages.goodbye(SESSION, "r" * 900)),
    ],
)
def test_what_is_said_is_understood(kind: type[BaseModel], said: messages.Json) -> None:
    kind.model_validate(said, strict=False)


def test_an_assignment_is_read_as_it_is_sent() -> None:
    assert ASSIGNED.line == (10, 40)
    assert (ASSIGNED.commit, ASSIGNED.project_key, ASSIGNED.timeout_seconds) == ("a" * 40, "0" * 16, 3.5)
    commit = CommitRequest.model_validate(SESSION.fields() | messages.commit(ASSIGNED, JOB, "d" * 64, 7, "1"))
    assert (commit.part_start, commit.part_end, commit.rows, commit.final) == (10, 40, 1, True)


@given(st.text(), st.text(max_size=2000))
def test_a_message_is_never_too_long_and_keeps_its_beginning_and_its_end(first: str, rest: str) -> None:
    said = tail(f"{first}\n{rest}")
    assert len(said) <= 500
    said.encode()
    assert "\0" not in said


def test_of_a_long_message_the_end_is_told() -> None:
    assert tail("it ended with exit code 1\n" + "noise\n" * 1000 + "the reason").endswith("the reason")
    assert tail("it ended with exit code 1\n" + "noise\n" * 1000).startswith("it ended with exit code 1\n…")
