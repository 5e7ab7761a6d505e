"""Time in whole steps: one that has not ended is counted in part, and would look like a collapse."""

from __future__ import annotations

from textwrap import dedent

_LENGTH = "$__interval_ms * interval '1 millisecond'"


def _begin_of_step(moment: str) -> str:
    """The same as Grafana's $__timeGroup, which reckons with extract(epoch) and so takes twice as long."""
    return f"date_bin({_LENGTH}, {moment}, 'epoch')"


STEP = _begin_of_step("at")
_FIRST = _begin_of_step("$__timeFrom()::timestamptz")
_END = _begin_of_step("least($__timeTo()::timestamptz, now())")

WHOLE_STEPS = f"at >= {_FIRST} AND at < {_END}"
"""From the step in which the chosen time begins to the last one that has ended."""


def filled(counted: str, *, after: str = "") -> str:
    """Zeros in the steps in which nothing happened; Grafana's own filling would put one into the step under way.

    counted: a query of time, metric and value. after: what it reads, as in `name AS (query)`.
    """
    before = f"{dedent(after).strip()},\n" if after else ""
    return f"""\
WITH {before}counted AS (
{dedent(counted).strip()}
)
SELECT time, metric, coalesce(value, 0) AS value
FROM generate_series({_FIRST}, {_END} - {_LENGTH}, {_LENGTH}) AS time
CROSS JOIN (SELECT DISTINCT metric FROM counted) AS every
LEFT JOIN counted USING (time, metric)
ORDER BY time, metric
"""
