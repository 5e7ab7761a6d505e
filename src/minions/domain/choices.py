"""The words that one may choose from, each list once: of two orders, `typing` shows whichever it met first."""

from __future__ import annotations

from typing import Literal

ModelKind = Literal["embed", "complete"]
PartFormat = Literal["parquet", "jsonl"]
ResultsFormat = Literal["jsonl", "csv", "parquet"]
SubtaskStateName = Literal["queued", "acquired", "done", "failed", "cancelled"]
TaskVerb = Literal["pause", "resume", "cancel"]
TokenScope = Literal["submit", "executor", "metrics", "admin"]
