"""Throughput: rows and tokens a second, by executor and by model."""

from __future__ import annotations

from deploy.grafana.panels import (
    BYTES,
    CHOSEN,
    ROWS_PER_SECOND,
    SECONDS,
    SOME_IS_BAD,
    TOKENS_PER_SECOND,
    Panel,
    lines,
    numbers,
    rows,
)
from deploy.grafana.steps import STEP, WHOLE_STEPS, filled

_MOST = 15
_EXECUTOR = "executor || ' #' || executor_id"  # names need not be unique
_TOKENS = "input_tokens + output_tokens"
# Names are looked up for the few that are shown: grouping by them as well doubles the time.
_NAMED = """
    SELECT key, name || ' #' || key AS name FROM most JOIN grafana_executor ON executor_id = key
"""


def throughput() -> list[Panel]:
    """Rows are counted when their part is committed, about once a minute for each subtask under way."""
    return [
        numbers(
            "In this time",
            f"""
            SELECT coalesce(sum(worked_rows), 0)::bigint AS rows,
                coalesce(sum(failed_rows) FILTER (WHERE NOT superseded), 0)::bigint AS "failed rows",
                coalesce(sum(input_tokens), 0)::bigint AS "input tokens",
                coalesce(sum(output_tokens), 0)::bigint AS "output tokens",
                coalesce(sum(input_bytes), 0)::bigint AS "input bytes"
            FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN}
            """,
            width=24,
            units={"input bytes": BYTES},
            levels={"failed rows": SOME_IS_BAD},
            said="Rows that were worked on; failed rows without those that a retry replaced.",
        ),
        _rate("Rows by type", "kind", "worked_rows", ROWS_PER_SECOND, stacked=True),
        _rate("Tokens by type", "kind", _TOKENS, TOKENS_PER_SECOND, stacked=True),
        _most_busy("Rows by model", "model", "worked_rows", ROWS_PER_SECOND),
        _most_busy("Tokens by model", "model", _TOKENS, TOKENS_PER_SECOND),
        _most_busy("Rows by executor", "executor_id", "worked_rows", ROWS_PER_SECOND, named=_NAMED),
        _most_busy("Tokens by executor", "executor_id", _TOKENS, TOKENS_PER_SECOND, named=_NAMED),
        rows(
            "Executors and models",
            f"""
            SELECT {_EXECUTOR} AS executor, model, kind, count(*) AS parts, sum(worked_rows)::bigint AS rows,
                sum({_TOKENS})::bigint AS tokens, sum(seconds)::float8 AS worked,
                (sum(worked_rows) / nullif(sum(seconds), 0))::float8 AS "rows/s",
                (sum({_TOKENS}) / nullif(sum(seconds), 0))::float8 AS "tokens/s"
            FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN}
            GROUP BY executor_id, executor, model, kind ORDER BY rows DESC, 1, model LIMIT 500
            """,
            width=24,
            height=12,
            units={"worked": SECONDS, "rows/s": ROWS_PER_SECOND, "tokens/s": TOKENS_PER_SECOND},
            said="The 500 pairs with the most rows. Rates while working, not over the whole time.",
        ),
    ]


def _rate(title: str, by: str, amount: str, unit: str, *, stacked: bool = False) -> Panel:
    counted = f"""
        SELECT {STEP} AS time, {by} AS metric, {_a_second(amount)} AS value
        FROM grafana_part WHERE {WHOLE_STEPS} AND {CHOSEN} GROUP BY 1, 2
    """
    return lines(title, filled(counted), width=12, unit=unit, stacked=stacked)


def _most_busy(
    title: str, key: str, amount: str, unit: str, *, named: str = "SELECT key, key AS name FROM most"
) -> Panel:
    """A line each for the few with the most, and one for all others: two thousand lines would freeze the browser.

    named: the names of those few.
    """
    after = f"""
        part AS (
            SELECT {STEP} AS time, {key} AS key, {_a_second(amount)} AS value
            FROM grafana_part WHERE {WHOLE_STEPS} AND {CHOSEN} GROUP BY 1, 2
        ), most AS (SELECT key FROM part GROUP BY key ORDER BY sum(value) DESC, key LIMIT {_MOST}
        ), named AS ({named})
    """
    counted = """
        SELECT part.time, coalesce(named.name, 'all others') AS metric, sum(part.value) AS value
        FROM part LEFT JOIN named USING (key) GROUP BY 1, 2
    """
    said = f"The {_MOST} with the most, and all others in one line."
    return lines(title, filled(counted, after=after), width=12, unit=unit, said=said)


def _a_second(amount: str) -> str:
    return f"(sum({amount}) * 1000.0 / $__interval_ms)::float8"
