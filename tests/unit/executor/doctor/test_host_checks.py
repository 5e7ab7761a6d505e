"""What is made of files, the service, the executor that runs, and the owner's file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from minions.domain.owner_policy import Mode, OwnerPolicy
from minions.executor.circuit import RESUME
from minions.executor.control.messages import Reason, Status
from minions.executor.doctor.findings import Verdict
from minions.executor.doctor.host_checks import Access, judge_executor, judge_files, judge_owner_file, judge_service
from minions.executor.service_manager import Running

STATE, TOKEN, UNIT = Path("/state"), Path("/state/token"), Path("/units/minions-executor.service")
NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
STATUS = Status(
    name="mac", server="https://a", version="1.0.0", pid=7, state_directory="/state", owner_file="/owner.toml",
    state="waiting", since=NOW, sentence="waiting: somebody used this Mac 40 s ago", reasons=[],
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "verdict", "says", "way_out"),
    [
        ([Access(STATE, 0o755), Access(TOKEN, 0o600, is_secret=True)], Verdict.OK, "2 places", ""),
        ([Access(TOKEN, 0o640, is_secret=True)], Verdict.WRONG, "others can read", "chmod 600 /state/token"),
        ([Access(TOKEN, None, is_secret=True)], Verdict.WRONG, "is missing", "install"),
        ([Access(STATE, 0o777)], Verdict.WRONG, "everybody can change", "chmod o-w /state"),
        ([Access(STATE, 0o700, is_usable=False)], Verdict.WRONG, "cannot be used", "chown"),
        ([Access(STATE, None)], Verdict.UNSURE, "no executor has run here", ""),
    ],
)
def test_files(found: list[Access], verdict: Verdict, says: str, way_out: str) -> None:
    judged = judge_files(found)
    assert judged.verdict is verdict
    assert says in judged.says
    assert way_out in judged.way_out


@pytest.mark.parametrize(
    ("file", "is_there", "running", "verdict", "says"),
    [
        (UNIT, True, Running(True), Verdict.OK, "runs"),
        (UNIT, True, Running(False, "0"), Verdict.WRONG, "does not run"),
        (UNIT, True, Running(False, "78: EX_CONFIG"), Verdict.WRONG, "it ended with 78: EX_CONFIG"),
        (UNIT, False, Running(True), Verdict.WRONG, "/opt/minions, which is not there"),
        (UNIT, True, None, Verdict.UNSURE, "cannot be told"),
        (None, True, None, Verdict.UNSURE, "none is installed"),
    ],
)
def test_service(file: Path | None, is_there: bool, running: Running | None, verdict: Verdict, says: str) -> None:
    judged = judge_service(file, "/opt/minions", is_there, running)
    assert judged.verdict is verdict
    assert says in judged.says


@pytest.mark.parametrize(
    ("changes", "reached", "system", "verdict", "words"),
    [
        ({}, True, "darwin", Verdict.OK, "somebody used this Mac"),
        ({"version": "0.9.0"}, True, "darwin", Verdict.WRONG, "it runs version 0.9.0, and 1.0.0 is installed"),
        ({"problem": "owner.toml: line 3: mode"}, True, "darwin", Verdict.WRONG, "line 3"),
        ({"problem": "the server does not answer at https://a/"}, True, "darwin", Verdict.WRONG, "Local Network"),
        ({"problem": "the server does not answer at https://a/"}, False, "darwin", Verdict.WRONG, "does not answer"),
        ({"problem": "the server does not answer at https://a/"}, True, "linux", Verdict.WRONG, "does not answer"),
        ({"reasons": [Reason(topic="order", text=f"3 failed ({RESUME})", since=NOW)]}, True, "linux", Verdict.WRONG,
         "executor resume"),
    ],
)  # fmt: skip
def test_the_executor_that_runs(
    changes: dict[str, object], reached: bool, system: str, verdict: Verdict, words: str
) -> None:
    judged = judge_executor(
        STATUS.model_copy(update=changes), "", installed="1.0.0", is_service=True, is_reached=reached, system=system
    )
    assert judged.verdict is verdict
    assert words in f"{judged.says} → {judged.way_out}"
    assert ("Local Network" in judged.way_out) == (words == "Local Network")


@pytest.mark.parametrize(("is_service", "verdict"), [(True, Verdict.WRONG), (False, Verdict.UNSURE)])
def test_no_executor_is_a_fault_where_one_is_installed(is_service: bool, verdict: Verdict) -> None:
    judged = judge_executor(
        None, "no executor runs here", installed="1", is_service=is_service, is_reached=False, system="linux"
    )
    assert (judged.verdict, judged.says) == (verdict, "no executor runs here")


@pytest.mark.parametrize(
    ("policy", "problem", "verdict", "says"),
    [
        (OwnerPolicy(), "", Verdict.OK, "is valid (mode auto)"),
        (OwnerPolicy(mode=Mode.NEVER), "", Verdict.UNSURE, "not lent"),
        (None, "", Verdict.UNSURE, "works at any time"),
        (None, "line 3: mode: must be one of", Verdict.WRONG, "line 3"),
    ],
)
def test_the_owners_file(policy: OwnerPolicy | None, problem: str, verdict: Verdict, says: str) -> None:
    judged = judge_owner_file(Path("/owner.toml"), policy, problem)
    assert judged.verdict is verdict
    assert says in judged.says
