"""Control: a pause lapses by itself, and what cannot be understood changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from minions.executor.commands.control import Control, control_of


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({}, Control()),
        ({"slots": 0}, Control(0)),
        ({"slots": True}, None),
        ({"slots": 2000}, None),
        ({"paused": ""}, Control(None, "")),
        ({"paused": "why", "evicting": True, "until": 101}, Control(None, "why", evicting=True, until=101)),
        ({"slots": 3, "paused": "why", "evicting": True, "until": 100}, Control(3)),
        ({"evicting": True, "draining": True}, Control(draining=True)),
        ({"port": 1, "secret": "s", "pid": 1}, Control()),
    ],
)
def test_what_a_file_says(said: dict[str, Any], means: Control | None) -> None:
    assert control_of(said, 100.0) == means
