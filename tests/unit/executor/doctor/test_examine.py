"""The examination: beside each other, in order, in time, and none takes the others along."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from minions.executor.doctor.examine import CHECKS, Check, examine
from minions.executor.doctor.findings import Finding, Judgement, Verdict, well
from minions.executor.doctor.readings import Once, Readings
from minions.executor.doctor.server_checks import VERSION_RULE
from minions.executor.doctor.subject import Subject
from minions.executor.doctor.trial import compute, embed_one_row, smallest_embedding_model
from tests.services.models import embedding_model


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject("http://127.0.0.1:9", "secret", tmp_path / "state", tmp_path / "cache", tmp_path / "owner.toml")


def test_one_that_fails_or_hangs_is_unknown_and_keeps_nobody(subject: Subject) -> None:
    gate, met = threading.Event(), threading.Barrier(2)

    def fails(_: Subject, __: Readings) -> Judgement:
        raise ZeroDivisionError

    def hangs(_: Subject, __: Readings) -> Judgement:
        gate.wait()
        return well("too late")

    def meets(_: Subject, __: Readings) -> Judgement:
        met.wait(30)
        return well("met the other")

    checks = [Check("a", meets), Check("b", fails), Check("c", hangs, 0.05), Check("d", meets)]
    found = list(examine(subject, checks))
    gate.set()
    assert found == [
        Finding("a", Verdict.OK, "met the other"),
        Finding("b", Verdict.UNSURE, "it could not be looked at (ZeroDivisionError)"),
        Finding("c", Verdict.UNSURE, "no answer within 0 s"),
        Finding("d", Verdict.OK, "met the other"),
    ]


def test_what_is_shared_is_read_once() -> None:
    reads: list[int] = []
    once: Once[int] = Once(lambda: reads.append(1) or len(reads))
    threads = [threading.Thread(target=once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (once(), reads) == (1, [1])


def test_every_check_has_a_name_of_its_own_and_a_limit() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(0 < check.seconds <= 200 for check in CHECKS)


def test_the_device_computes() -> None:
    found, problem = compute("cpu")
    assert problem == ""
    assert found is not None
    assert (found.device, found.is_right) == ("cpu", True)
    found, problem = compute("cuda:99")
    assert found is None
    assert problem


def test_one_row_goes_through_the_real_engine(tmp_path: Path) -> None:
    assert smallest_embedding_model(tmp_path) is None
    (tmp_path / "index").mkdir()
    snapshot = tmp_path / "hf" / "models--org--small" / "snapshots" / "c0ffee"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(embedding_model())
    (tmp_path / "hf" / "models--org--half").mkdir()
    model = smallest_embedding_model(tmp_path)
    assert model == snapshot
    found = embed_one_row(model, tmp_path, "cpu")
    assert found.verdict is Verdict.OK, found
    assert "a vector of 384 numbers" in found.says
    empty = tmp_path / "empty"
    empty.mkdir()
    assert embed_one_row(empty, tmp_path, "cpu").verdict is Verdict.WRONG
    assert embed_one_row(None, tmp_path, "cpu").verdict is Verdict.UNSURE


def test_the_page_tells_every_check_and_the_rule() -> None:
    page = (Path(__file__).parents[4] / "docs" / "lending.md").read_text(encoding="utf-8")
    table = page.partition("## The doctor")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [check.name for check in CHECKS]
    assert VERSION_RULE in table
