"""How an executor that fell silent is told of."""

from __future__ import annotations

import pytest

from minions.domain.silence import NO_SIGN_OF_LIFE, told


@pytest.mark.parametrize(
    ("state", "reason", "holds", "says"),
    [
        ("offline", NO_SIGN_OF_LIFE, 3, "silent since 14:02, still holds 3 subtasks"),
        ("offline", NO_SIGN_OF_LIFE, 1, "silent since 14:02, still holds 1 subtask"),
        ("offline", "", 1, "silent since 14:02, still holds 1 subtask"),
        ("offline", "stopped by its owner", 1200, "stopped by its owner, still holds 1,200 subtasks"),
        ("offline", NO_SIGN_OF_LIFE, 0, NO_SIGN_OF_LIFE),
        ("busy", "", 3, ""),
        ("paused", "on battery", 1, "on battery"),
    ],
)
def test_who_is_offline_with_work_says_so(state: str, reason: str, holds: int, says: str) -> None:
    assert told(state, reason, "14:02", holds) == says
