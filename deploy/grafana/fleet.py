"""Fleet: which executors there are, what they do, and why they do not."""

from __future__ import annotations

from deploy.grafana.panels import CHOSEN, NONE_IS_BAD, SECONDS, Panel, bars, lines, numbers, rows
from deploy.grafana.steps import STEP, WHOLE_STEPS


def fleet() -> list[Panel]:
    """Executors belong to no team: the variables choose whose work is counted, where work is counted."""
    return [
        numbers(
            "Executors",
            """
            SELECT count(*) AS registered, count(*) FILTER (WHERE state <> 'offline') AS online,
                count(*) FILTER (WHERE state = 'busy') AS busy, count(*) FILTER (WHERE state = 'idle') AS idle,
                count(*) FILTER (WHERE state = 'starting') AS starting,
                count(*) FILTER (WHERE state IN ('paused', 'stopping')) AS "not available",
                count(*) FILTER (WHERE state = 'offline') AS offline
            FROM grafana_executor
            """,
            width=16,
            levels={"online": NONE_IS_BAD},
            said="Of all teams: an executor belongs to none.",
        ),
        numbers(
            "Work under way",
            f"""
            SELECT count(DISTINCT executor_id) AS executors, count(DISTINCT (task_id, subtask_id)) AS subtasks
            FROM grafana_held WHERE {CHOSEN}
            """,
            width=8,
            said="Executors that hold subtasks of the chosen teams and projects, and how many.",
        ),
        lines(
            "Executors by state",
            f"""
            SELECT time, state AS metric, count(*) AS value
            FROM (
                SELECT DISTINCT ON (time, executor_id) {STEP} AS time, executor_id, state
                FROM grafana_sample WHERE {WHOLE_STEPS} ORDER BY time, executor_id, at DESC
            ) AS latest
            GROUP BY time, state ORDER BY time
            """,
            width=16,
            stacked=True,
            interval="10m",
            said="By heartbeats, the last of each executor in each step that has ended. One that is offline sends "
            "none. With a heartbeat of more than 10 minutes, choose a longer minimum interval.",
        ),
        bars(
            "Why executors do not work",
            """
            SELECT state || ': ' || CASE state_reason WHEN '' THEN 'no reason given' ELSE state_reason END AS reason,
                count(*) AS executors
            FROM grafana_executor WHERE state <> 'busy' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 50
            """,
            width=8,
            said="What the executors that do not work say of it; the 50 reasons that most of them give.",
        ),
        rows(
            "All executors",
            f"""
            SELECT executor.name, executor.owner, executor.chip, executor.state, executor.state_reason AS reason,
                extract(epoch FROM now() - executor.state_since)::float8 AS "for",
                extract(epoch FROM now() - executor.last_seen_at)::float8 AS silent,
                coalesce(held.subtasks, 0) AS "subtasks held", executor.version
            FROM grafana_executor AS executor
            LEFT JOIN (
                SELECT executor_id, count(*) AS subtasks FROM grafana_held WHERE {CHOSEN} GROUP BY executor_id
            ) AS held USING (executor_id)
            ORDER BY executor.state = 'offline', executor.name, executor.executor_id
            """,
            width=24,
            height=12,
            units={"for": SECONDS, "silent": SECONDS},
            said="Those offline too. Subtasks of the chosen teams and projects.",
        ),
        lines(
            "Free memory",
            f"""
            SELECT {STEP} AS time, min(memory_free_mb) AS least,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY memory_free_mb) AS median
            FROM grafana_sample WHERE {WHOLE_STEPS} AND memory_free_mb IS NOT NULL GROUP BY 1 ORDER BY 1
            """,
            width=12,
            unit="decmbytes",
            interval="10m",
            said="Of the executors that could tell.",
        ),
        bars(
            "Versions",
            """
            SELECT version, count(*) AS executors FROM grafana_executor WHERE state <> 'offline'
            GROUP BY version ORDER BY 2 DESC, 1
            """,
            width=12,
            said="Of the executors that are online.",
        ),
    ]
