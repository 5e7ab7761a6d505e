-- standing
-- Everything that waits, runs and is there, in one snapshot: (what, team, kind, state, number, longest wait in seconds).
-- The queue holds ranges, so a million subtasks that wait are some thousand rows. What waits for anything else beside the
-- resume of a paused task waits for that.
WITH waiting AS MATERIALIZED (
    SELECT task_id, CASE WHEN ready THEN 'ready' WHEN waits_for IS NOT NULL THEN 'held_back'
            WHEN not_before IS NOT NULL THEN 'delayed' ELSE 'paused' END AS state,
        sum(end_subtask - next_subtask) AS subtasks, min(waiting_since) FILTER (WHERE ready) AS since
    FROM minion_subtask_queue GROUP BY 1, 2
), held AS MATERIALIZED (
    SELECT task_id, count(*) AS subtasks FROM minion_subtask_acquirement GROUP BY task_id
)
SELECT 'queued' AS what, task.team, task.kind, stands.state, sum(waiting.subtasks)::bigint AS number,
    CASE WHEN stands.state = 'ready' THEN greatest(0, extract(epoch FROM now() - min(waiting.since))) END::float8
    AS longest_seconds
FROM waiting JOIN minion_task AS task USING (task_id)
CROSS JOIN LATERAL (
    SELECT CASE WHEN task.paused AND waiting.state <> 'ready' THEN 'paused' ELSE waiting.state END AS state
) AS stands
GROUP BY task.team, task.kind, stands.state
UNION ALL
SELECT 'acquired', task.team, task.kind, '', sum(held.subtasks)::bigint, NULL
FROM held JOIN minion_task AS task USING (task_id) GROUP BY task.team, task.kind
UNION ALL
SELECT 'task', team, kind, state, count(*), NULL
FROM minion_task WHERE state IN ('submitted', 'splitting', 'running', 'finishing') GROUP BY team, kind, state
UNION ALL
SELECT 'paused_task', team, kind, state, count(*), NULL
FROM minion_task WHERE state IN ('submitted', 'splitting', 'running', 'finishing') AND paused GROUP BY team, kind, state
UNION ALL
SELECT 'executor', '', '', state, count(*), NULL FROM minion_executor_standing GROUP BY state;
