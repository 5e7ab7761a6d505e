"""Past runs: how long an input would take, from how fast executors were lately; pure."""

from __future__ import annotations

_START_SECONDS = (2.0, 30.0)  # from the submission to the first rows: a loaded model, or one that has to be loaded


def expected_seconds(
    input_bytes: int, slow_bytes_per_second: float, fast_bytes_per_second: float, executors: int
) -> tuple[int, int] | None:
    """(low, high): all executors fast, or all slow. None without executors or speeds."""
    if executors < 1 or slow_bytes_per_second <= 0 or fast_bytes_per_second <= 0:
        return None
    low = input_bytes / (fast_bytes_per_second * executors)
    high = input_bytes / (slow_bytes_per_second * executors)
    return int(low + _START_SECONDS[0]), int(high + _START_SECONDS[1]) + 1
