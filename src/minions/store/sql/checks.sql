-- unbalanced_tasks
-- Open tasks of which queued + acquired + ended is not the number of subtasks, in one snapshot: never, if all is well.
SELECT * FROM (
    SELECT task.task_id, task.subtask_count AS total,
        (SELECT coalesce(sum(end_subtask - next_subtask), 0)::int FROM minion_subtask_queue AS queue
            WHERE queue.task_id = task.task_id) AS queued,
        (SELECT count(*)::int FROM minion_subtask_acquirement AS held WHERE held.task_id = task.task_id) AS acquired,
        (SELECT coalesce(sum(subtasks), 0)::int FROM minion_subtask_ledger AS ledger
            WHERE ledger.task_id = task.task_id AND entry IN ('done', 'failed', 'cancelled')
                AND superseded_at IS NULL) AS ended
    FROM minion_task AS task
    WHERE state IN ('submitted', 'splitting', 'running', 'finishing')
) AS standing
WHERE total <> queued + acquired + ended
ORDER BY task_id LIMIT 100;

-- overdue_ranges
-- Tasks of which something should have become available $1 seconds ago and did not, or can never become so.
SELECT queue.task_id, sum(end_subtask - next_subtask)::int AS subtasks,
    coalesce(max(extract(epoch FROM now() - not_before)), 0)::float8 AS overdue_seconds
FROM minion_subtask_queue AS queue JOIN minion_task AS task USING (task_id)
WHERE not_before < now() - make_interval(secs => $1)
    OR (NOT ready AND not_before IS NULL AND NOT task.paused)
GROUP BY queue.task_id ORDER BY queue.task_id LIMIT 100;

-- unfinished_tasks
-- Tasks of which nothing has been open for $1 seconds, and which nobody has finished.
SELECT task.task_id, extract(epoch FROM now() - coalesce(last.at, task.started_at))::float8 AS idle_seconds
FROM minion_task AS task
LEFT JOIN LATERAL (
    SELECT at FROM minion_subtask_ledger AS ledger WHERE ledger.task_id = task.task_id ORDER BY at DESC LIMIT 1
) AS last ON true
WHERE task.state IN ('running', 'finishing')
    AND NOT EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = task.task_id)
    AND NOT EXISTS (SELECT FROM minion_subtask_acquirement AS held WHERE held.task_id = task.task_id)
    AND coalesce(last.at, task.started_at) < now() - make_interval(secs => $1)
ORDER BY task.task_id LIMIT 100;
