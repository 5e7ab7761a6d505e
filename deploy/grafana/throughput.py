"""Throughput: rows and tokens a second, by executor and by model."""

from __future__ import annotations

from deploy.grafana.panels import CHOSEN, ROWS_PER_SECOND, SECONDS, TOKENS_PER_SECOND, Panel, lines, numbers, rows

_MOST = 15
_EXECUTOR = "executor || ' #' || executor_id"  # names need not be unique
_TOKENS = "input_tokens + output_tokens"


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
            said="Rows that were worked on; failed rows without those that a retry replaced.",
        ),
        _rate("Rows by type", "kind", "worked_rows", ROWS_PER_SECOND, stacked=True),
        _rate("Tokens by type", "kind", _TOKENS, TOKENS_PER_SECOND, stacked=True),
        _most_busy("Rows by model", "model", "model", "worked_rows", ROWS_PER_SECOND),
        _most_busy("Tokens by model", "model", "model", _TOKENS, TOKENS_PER_SECOND),
        _most_busy("Rows by executor", "executor_id", _EXECUTOR, "worked_rows", ROWS_PER_SECOND),
        _most_busy("Tokens by executor", "executor_id", _EXECUTOR, _TOKENS, TOKENS_PER_SECOND),
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
            units={"worked": SECONDS},
            said="The 500 pairs with the most rows. Rates while working, not over the whole time.",
        ),
    ]


def _rate(title: str, by: str, amount: str, unit: str, *, stacked: bool = False) -> Panel:
    return lines(
        title,
        f"""
        SELECT $__timeGroupAlias(at,$__interval,0), {by} AS metric,
            (sum({amount}) * 1000.0 / $__interval_ms)::float8 AS value
        FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN} GROUP BY 1, 2 ORDER BY 1
        """,
        width=12,
        unit=unit,
        stacked=stacked,
        said="The first and the last step are not whole.",
    )


def _most_busy(title: str, key: str, name: str, amount: str, unit: str) -> Panel:
    """A line each for the few with the most, and one for all others: two thousand lines would freeze the browser."""
    return lines(
        title,
        f"""
        WITH most AS (
            SELECT {key} FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN}
            GROUP BY {key} ORDER BY sum({amount}) DESC, {key} LIMIT {_MOST}
        )
        SELECT $__timeGroupAlias(at,$__interval,0),
            CASE WHEN {key} IN (SELECT {key} FROM most) THEN {name} ELSE 'all others' END AS metric,
            (sum({amount}) * 1000.0 / $__interval_ms)::float8 AS value
        FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN} GROUP BY 1, 2 ORDER BY 1
        """,
        width=12,
        unit=unit,
        said=f"The {_MOST} with the most, and all others in one line.",
    )
