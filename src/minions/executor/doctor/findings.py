"""What a check says: it is well, it is wrong, or it cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WRONG = "wrong"  # work is kept from starting, or will be
    UNSURE = "unsure"  # it could not be told, or only its owner knows whether that is meant

    @property
    def mark(self) -> str:
        return {"ok": "✓", "wrong": "✗", "unsure": "?"}[self.value]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. check: its name; says: one clause; way_out: what to do about it."""

    check: str
    verdict: Verdict
    says: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A finding that does not know yet which check it belongs to."""

    verdict: Verdict
    says: str
    way_out: str = ""


def well(says: str) -> Judgement:
    return Judgement(Verdict.OK, says)


def wrong(says: str, way_out: str) -> Judgement:
    return Judgement(Verdict.WRONG, says, way_out)


def unsure(says: str, way_out: str = "") -> Judgement:
    return Judgement(Verdict.UNSURE, says, way_out)
