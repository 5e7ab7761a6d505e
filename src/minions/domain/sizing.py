"""Sizing: how large a subtask should be, so that one takes about a minute on a typical executor."""

from __future__ import annotations

TARGET_SECONDS = 60.0
_FIRST_GUESS_BYTES = {"embed": 512 * 1024, "complete": 16 * 1024}
_SMALLEST_BYTES = {"embed": 16 * 1024, "complete": 512}
_LARGEST_BYTES = 256 * 1024 * 1024
# Rows that an engine works on together; smaller subtasks only cost calls. A third of llama.cpp's slots, since few long
# prompts shall still be shared by several executors.
_ROWS_TOGETHER = {"embed": 16, "complete": 4}
_SHARES = 24  # a small task is cut into about this many subtasks, so that several executors find work


def subtask_bytes(kind: str, input_bytes: int, bytes_per_second: float | None, row_bytes: float | None = None) -> int:
    """Bytes of input for one subtask.

    row_bytes: of the first rows, on average; None where that is not known.
    bytes_per_second: what one executor has done of this kind and model lately; None when nothing is known yet, and
    then the first guess errs on the small side.
    """
    smallest = _SMALLEST_BYTES[kind]
    wanted = _FIRST_GUESS_BYTES[kind] if bytes_per_second is None else int(bytes_per_second * TARGET_SECONDS)
    share = max(smallest, input_bytes // _SHARES, int((row_bytes or 0) * _ROWS_TOGETHER[kind]))
    wanted = min(max(wanted, int(row_bytes or 0)), share)
    return max(smallest, min(wanted, _LARGEST_BYTES))
