"""Work: tasks and what waits."""

from __future__ import annotations

from deploy.grafana.panels import CHOSEN, SECONDS, SOME_IS_BAD, Levels, Panel, bars, lines, numbers, rows, shares
from deploy.grafana.steps import STEP, WHOLE_STEPS, filled

_WAIT_LEVELS: Levels = ((3600, "orange"), (6 * 3600, "red"))  # MinionsLongWait alerts after six hours
_DRAIN_LEVELS: Levels = ((24 * 3600, "orange"), (7 * 24 * 3600, "red"))


def work() -> list[Panel]:
    """What was handed in, how it ended, and how long the rest will take."""
    return [*_tasks(), *_queue(), _open_tasks()]


def _tasks() -> list[Panel]:
    return [
        numbers(
            "Tasks now",
            f"""
            SELECT count(*) FILTER (WHERE NOT paused) AS active, count(*) FILTER (WHERE paused) AS paused
            FROM grafana_task WHERE open AND {CHOSEN}
            """,
            width=6,
            said="Tasks that have not ended; those that are paused are not active.",
        ),
        numbers(
            "Tasks that ended",
            f"""
            SELECT count(*) FILTER (WHERE state = 'completed') AS completed,
                count(*) FILTER (WHERE state = 'failed') AS failed,
                count(*) FILTER (WHERE state = 'cancelled') AS cancelled
            FROM grafana_task WHERE $__timeFilter(ended_at) AND {CHOSEN}
            """,
            width=10,
            levels={"failed": SOME_IS_BAD},
        ),
        numbers(
            "Subtasks now",
            f"""
            SELECT coalesce(sum(subtasks) FILTER (WHERE state = 'ready'), 0)::bigint AS waiting,
                coalesce(sum(subtasks) FILTER (WHERE state <> 'ready'), 0)::bigint AS "held back",
                (SELECT count(*) FROM grafana_acquired WHERE {CHOSEN}) AS "under way"
            FROM grafana_waiting WHERE {CHOSEN}
            """,
            width=8,
            said="Held back: of paused tasks, delayed after a fault, or jobs that may still run where they were "
            "cancelled.",
        ),
        lines(
            "Tasks",
            filled(f"""
                SELECT {STEP} AS time, event AS metric, count(*) AS value
                FROM (
                    SELECT created_at AS at, 'submitted' AS event, team, project FROM grafana_task
                    UNION ALL
                    SELECT ended_at, state, team, project FROM grafana_task
                ) AS events
                WHERE {WHOLE_STEPS} AND {CHOSEN} GROUP BY 1, event
            """),
            width=12,
        ),
        shares(
            "Inference types, by tasks",
            f"""
            SELECT kind || ' · ' || engine AS type, count(*) AS tasks
            FROM grafana_task WHERE $__timeFilter(created_at) AND {CHOSEN} GROUP BY 1 ORDER BY 2 DESC, 1
            """,
            width=6,
            said="Of the tasks that were submitted.",
        ),
        shares(
            "Inference types, by rows",
            f"""
            SELECT kind || ' · ' || engine AS type, sum(worked_rows)::bigint AS rows
            FROM grafana_part WHERE $__timeFilter(at) AND {CHOSEN} GROUP BY 1 ORDER BY 2 DESC, 1
            """,
            width=6,
            said="Of the rows that were worked on.",
        ),
    ]


def _queue() -> list[Panel]:
    return [
        lines(
            "Queue wait",
            f"""
            SELECT {STEP} AS time,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY waited_seconds) AS p50,
                percentile_cont(0.95) WITHIN GROUP (ORDER BY waited_seconds) AS p95
            FROM grafana_ledger WHERE {WHOLE_STEPS} AND waited_seconds IS NOT NULL AND {CHOSEN}
            GROUP BY 1 ORDER BY 1
            """,
            width=12,
            unit=SECONDS,
            said="From when a subtask could be handed out until it was; a pause, or the delay after a fault, is no "
            "waiting. At the time when the subtask left its executor: what still waits or runs is not in it.",
        ),
        bars(
            "Longest wait now",
            f"""
            SELECT kind, greatest(0, extract(epoch FROM now() - min(waiting_since)))::float8 AS seconds
            FROM grafana_waiting WHERE state = 'ready' AND {CHOSEN} GROUP BY kind ORDER BY 2 DESC
            """,
            width=6,
            unit=SECONDS,
            nothing="nothing waits",
            levels=_WAIT_LEVELS,
            said="Of the subtasks that could be handed out and were not yet.",
        ),
        bars(
            "Time to drain",
            f"""
            SELECT kind, CASE WHEN sum(done) > 0 THEN (900.0 * sum(open) / sum(done))::float8 END AS seconds
            FROM (
                SELECT kind, subtasks AS open, 0 AS done FROM grafana_waiting
                WHERE state NOT IN ('paused', 'held_back') AND {CHOSEN}
                UNION ALL
                SELECT kind, 1, 0 FROM grafana_acquired WHERE {CHOSEN}
                UNION ALL
                SELECT kind, 0, subtasks FROM grafana_ledger
                WHERE entry = 'done' AND at > now() - interval '15 minutes' AND {CHOSEN}
            ) AS subtasks
            GROUP BY kind HAVING sum(open) > 0 ORDER BY 2 DESC NULLS FIRST, 1
            """,
            width=6,
            unit=SECONDS,
            nothing="not known: none was done in the last 15 minutes",
            levels=_DRAIN_LEVELS,
            said="All open subtasks, at the rate of the last 15 minutes; left out: paused tasks, and jobs that may "
            "still run where they were cancelled.",
        ),
    ]


def _open_tasks() -> Panel:
    return rows(
        "Open tasks",
        f"""
        SELECT task.team, task.project, task.task_name AS task, task.kind, task.model, task.state, task.paused,
            task.subtask_count AS subtasks, coalesce(waiting.subtasks, 0)::bigint AS waiting,
            coalesce(held.subtasks, 0)::bigint AS "under way",
            task.subtask_count - coalesce(waiting.subtasks, 0) - coalesce(held.subtasks, 0) AS ended,
            extract(epoch FROM now() - task.created_at)::float8 AS age
        FROM grafana_task AS task
        LEFT JOIN (SELECT task_id, sum(subtasks) AS subtasks FROM grafana_waiting GROUP BY task_id) AS waiting
            USING (task_id)
        LEFT JOIN (SELECT task_id, count(*) AS subtasks FROM grafana_acquired GROUP BY task_id) AS held USING (task_id)
        WHERE task.open AND {CHOSEN} ORDER BY task.task_id LIMIT 500
        """,
        width=24,
        height=12,
        units={"age": SECONDS},
        said="The 500 oldest.",
    )
