"""Reliability: what was given back, lost, tried in vain, and failed."""

from __future__ import annotations

from deploy.grafana.panels import CHOSEN, NONE_IS_BAD, SHARE, SOME_IS_BAD, Levels, Panel, bars, lines, numbers, rows
from deploy.grafana.steps import STEP, WHOLE_STEPS, filled

_SHARE_LEVELS: Levels = ((0.01, "orange"), (0.1, "red"))


def reliability() -> list[Panel]:
    """A release is no fault: the owner of the Mac came first."""
    return [_watch(), *_subtasks(), *_rows(), *_who()]


def _watch() -> Panel:
    return numbers(
        "Watchdog",
        """
        SELECT (SELECT active FROM grafana_watchdog) AS "watchdogs at work",
            count(DISTINCT held.executor_id) AS "offline executors with subtasks", count(*) AS "subtasks that they hold"
        FROM grafana_held AS held JOIN grafana_executor AS executor USING (executor_id)
        WHERE executor.state = 'offline'
        """,
        width=24,
        levels={
            "watchdogs at work": NONE_IS_BAD,
            "offline executors with subtasks": SOME_IS_BAD,
            "subtasks that they hold": SOME_IS_BAD,
        },
        said="Of all teams. One watchdog works, or nobody gives back what silent executors hold. Jobs that may not "
        "run twice stay with their executor until it is back or abandoned.",
    )


def _subtasks() -> list[Panel]:
    return [
        numbers(
            "Subtasks",
            f"""
            SELECT coalesce(sum(subtasks) FILTER (WHERE entry = 'done' AND NOT superseded), 0)::bigint AS done,
                count(*) FILTER (WHERE entry = 'released') AS released, count(*) FILTER (WHERE entry = 'lost') AS lost,
                count(*) FILTER (WHERE entry = 'fault') AS faults,
                count(*) FILTER (WHERE entry = 'failed' AND NOT superseded) AS "set aside"
            FROM grafana_ledger WHERE $__timeFilter(at) AND {CHOSEN}
            """,
            width=24,
            levels={"lost": SOME_IS_BAD, "faults": SOME_IS_BAD, "set aside": ((1, "red"),)},
            said="Released: given back by an executor. Lost: it fell silent. Fault: it tried and could not. Ends of "
            "subtasks that were retried are left out.",
        ),
        lines(
            "Given back",
            filled(f"""
                SELECT {STEP} AS time, entry AS metric, count(*) AS value
                FROM grafana_ledger
                WHERE entry IN ('released', 'lost', 'fault', 'failed') AND {WHOLE_STEPS} AND {CHOSEN} GROUP BY 1, 2
            """),
            width=12,
            stacked=True,
        ),
        bars(
            "Attempts that subtasks took",
            f"""
            SELECT CASE attempt WHEN 0 THEN '1 attempt' ELSE (attempt + 1) || ' attempts' END AS attempts,
                sum(subtasks)::bigint AS subtasks
            FROM grafana_ledger WHERE entry = 'done' AND NOT superseded AND $__timeFilter(at) AND {CHOSEN}
            GROUP BY attempt ORDER BY attempt
            """,
            width=12,
            said="Of subtasks that were done.",
        ),
        rows(
            "Reasons",
            f"""
            SELECT entry, reason, count(*) AS subtasks, count(DISTINCT executor_id) AS executors, max(at) AS last
            FROM grafana_ledger
            WHERE entry IN ('released', 'lost', 'fault', 'failed') AND $__timeFilter(at) AND {CHOSEN}
            GROUP BY entry, reason ORDER BY subtasks DESC, entry, reason LIMIT 200
            """,
            width=24,
            said="The 200 most frequent.",
        ),
    ]


def _rows() -> list[Panel]:
    return [
        numbers(
            "Failed rows",
            f"""
            SELECT coalesce(sum(failed_rows), 0)::bigint AS "failed rows",
                coalesce(sum(truncated_rows), 0)::bigint AS "truncated rows"
            FROM grafana_part WHERE NOT superseded AND $__timeFilter(at) AND {CHOSEN}
            """,
            width=12,
            levels={"failed rows": SOME_IS_BAD, "truncated rows": SOME_IS_BAD},
        ),
        numbers(
            "Share of rows that failed",
            f"""
            SELECT (sum(failed_rows)::float8 / nullif(sum(rows), 0)) AS failed
            FROM grafana_part WHERE NOT superseded AND $__timeFilter(at) AND {CHOSEN}
            """,
            width=12,
            unit=SHARE,
            nothing="no rows",
            levels={"failed": _SHARE_LEVELS},
        ),
        lines(
            "Failed rows by code",
            filled(f"""
                SELECT {STEP} AS time, code AS metric, sum(rows)::bigint AS value
                FROM grafana_failed_rows WHERE NOT superseded AND {WHOLE_STEPS} AND {CHOSEN} GROUP BY 1, 2
            """),
            width=16,
            stacked=True,
            said="Without those that a retry replaced.",
        ),
        bars(
            "Failed rows by code, added up",
            f"""
            SELECT code, sum(rows)::bigint AS rows
            FROM grafana_failed_rows WHERE NOT superseded AND $__timeFilter(at) AND {CHOSEN}
            GROUP BY code ORDER BY 2 DESC, 1
            """,
            width=8,
        ),
    ]


def _who() -> list[Panel]:
    return [
        rows(
            "Executors in trouble",
            f"""
            SELECT executor || ' #' || executor_id AS executor, count(*) FILTER (WHERE entry = 'done') AS done,
                count(*) FILTER (WHERE entry = 'released') AS released, count(*) FILTER (WHERE entry = 'lost') AS lost,
                count(*) FILTER (WHERE entry = 'fault') AS faults
            FROM grafana_ledger WHERE executor_id IS NOT NULL AND $__timeFilter(at) AND {CHOSEN}
            GROUP BY executor_id, executor HAVING count(*) FILTER (WHERE entry IN ('released', 'lost', 'fault')) > 0
            ORDER BY faults DESC, lost DESC, released DESC, 1 LIMIT 200
            """,
            width=12,
            said="The 200 with the most faults.",
        ),
        rows(
            "Tasks that failed",
            f"""
            SELECT ended_at AS ended, team, project, task_name AS task, state_reason AS reason
            FROM grafana_task WHERE state = 'failed' AND $__timeFilter(ended_at) AND {CHOSEN}
            ORDER BY ended_at DESC LIMIT 200
            """,
            width=12,
            said="The last 200.",
        ),
    ]
