"""What Grafana makes of a panel's SQL before PostgreSQL sees it: its variables and macros, expanded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

STEP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """What somebody has chosen above a dashboard."""

    teams: Sequence[str]
    projects: Sequence[str]
    since: datetime
    until: datetime


def expand(sql: str, choice: Choice) -> str:
    """The statement that reaches PostgreSQL. Raises AssertionError for a macro that is not known."""
    for name, chosen in (("team", choice.teams), ("project", choice.projects)):
        quoted = ",".join("'" + value.replace("'", "''") + "'" for value in chosen)
        sql = sql.replace(f"${{{name}:sqlstring}}", quoted)
    sql = sql.replace("$__interval_ms", str(STEP_SECONDS * 1000)).replace("$__interval", f"{STEP_SECONDS}s")
    sql = re.sub(
        r"\$__timeFilter\(([^)]*)\)", lambda m: f"{m[1]} BETWEEN '{_z(choice.since)}' AND '{_z(choice.until)}'", sql
    )
    sql = re.sub(r"\$__timeGroupAlias\(([^)]*)\)", lambda m: f'{_group(m[1])} AS "time"', sql)
    sql = re.sub(r"\$__timeGroup\(([^)]*)\)", lambda m: _group(m[1]), sql)
    assert "$" not in sql, sql
    return sql


def _group(arguments: str) -> str:
    """`column, interval, fill`; Grafana fills after the fact."""
    column, interval = [each.strip() for each in arguments.split(",")][:2]
    seconds = int(interval.removesuffix("s"))
    return f"floor(extract(epoch from {column})/{seconds})*{seconds}"


def _z(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
