"""Damaged data: what Arrow raises about an input, as an error of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from minions.domain.errors import InputUnreadable
from minions.formats.arrow import arrow
from minions.formats.source import SourceFile, StreamFile


@contextmanager
def explained(name: str, raw: SourceFile | StreamFile, expected: str) -> Generator[None]:
    """Turn Arrow's complaint into InputUnreadable; what the source itself raised goes through as it is."""
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        if raw.failure is not None:
            raise raw.failure from None
        raise InputUnreadable(
            f"{name}: expected {expected}, found data that ends early or is damaged; "
            f"check that the file was written and uploaded completely, and hand it in again"
        ) from error
