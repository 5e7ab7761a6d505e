"""Times as people write them."""

from __future__ import annotations

import pytest

from minions.hosts.durations import seconds_of


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("0.5h", 1800), (45, 45), ("1d", 86400)]
)
def test_times(given: object, seconds: float) -> None:
    assert seconds_of(given) == seconds


@pytest.mark.parametrize("given", ["", "30", "m", "-1s", 0, -3, True, None, "1h 30m", "400d", "0s"])
def test_what_is_no_time(given: object) -> None:
    with pytest.raises(ValueError, match="must be a time"):
        seconds_of(given)
