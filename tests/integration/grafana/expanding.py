"""What Grafana makes of a panel's SQL before PostgreSQL sees it: its variables and macros, expanded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

STEP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody has chosen above a dashboard. now: when somebody looks; without, when the database says it is."""

    teams: Sequence[str]
    projects: Sequence[str]
    since: datetime
    until: datetime
    step_seconds: int = STEP_SECONDS
    now: datetime | None = None

    def afterwards(self) -> Choice:
        """The same, looked at when its time is over: every step has ended."""
        return replace(self, now=self.until)


def expand(sql: str, choice: Choice) -> str:
    """The statement that reaches PostgreSQL. Raises AssertionError for a macro that is not known."""
    for name, chosen in (("team", choice.teams), ("project", choice.projects)):
        quoted = ",".join("'" + value.replace("'", "''") + "'" for value in chosen)
        sql = sql.replace(f"${{{name}:sqlstring}}", quoted)
    sql = sql.replace("$__interval_ms", str(choice.step_seconds * 1000))
    since, until = _z(choice.since), _z(choice.until)
    sql = sql.replace("$__timeFrom()", f"'{since}'").replace("$__timeTo()", f"'{until}'")
    sql = re.sub(r"\$__timeFilter\(([^)]*)\)", lambda m: f"{m[1]} BETWEEN '{since}' AND '{until}'", sql)
    if choice.now:
        sql = sql.replace("now()", f"'{_z(choice.now)}'::timestamptz")
    assert "$" not in sql, sql
    return sql


def _z(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
