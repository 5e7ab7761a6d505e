"""Inputs: the format of an object, and the ranges into which it is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Format = Literal["jsonl", "csv", "parquet"]
Compression = Literal["none", "gzip", "zstd"]


@dataclass(frozen=True, slots=True)
class InputFormat:
    """How to read an object. `columns`: the CSV header in order (empty otherwise); `delimiter` is CSV's."""

    format: Format
    compression: Compression = "none"
    delimiter: str = ","
    columns: tuple[str, ...] = ()

    @property
    def by_bytes(self) -> bool:
        """Whether positions in the object are bytes (else they are row numbers)."""
        return self.format != "parquet" and self.compression == "none"

    @property
    def unit(self) -> str:
        """What positions in the object count."""
        return "byte" if self.by_bytes else "row"


@dataclass(frozen=True, slots=True)
class SubtaskRange:
    """A piece of one object: the records whose position p has start <= p < end; end None is the object's end."""

    start: int
    end: int | None
