-- Paused and retried tasks are told as they are.

-- Ranges of a paused task are paused, whatever else they wait for: nothing hands them out before the task is resumed.
CREATE OR REPLACE VIEW grafana_waiting AS
SELECT queue.task_id, task.team, task.project, task.kind, queue.end_subtask - queue.next_subtask AS subtasks,
    CASE WHEN queue.ready THEN 'ready' WHEN task.paused THEN 'paused' WHEN queue.waits_for IS NOT NULL THEN 'held_back'
        WHEN queue.not_before IS NOT NULL THEN 'delayed' ELSE 'paused' END AS state,
    queue.waiting_since
FROM minion_subtask_queue AS queue JOIN minion_task AS task USING (task_id);

-- A task that is retried begins once more: how long it took is what its runs took, without the time in between.
ALTER TABLE minion_task ADD COLUMN retried_at timestamptz;
ALTER TABLE minion_task ADD COLUMN earlier_seconds float8 DEFAULT 0;
COMMENT ON COLUMN minion_task.retried_at IS 'When it was retried last.';
COMMENT ON COLUMN minion_task.earlier_seconds IS
    'How long its runs before that took together; null: not known, as it was retried before this was noted.';
UPDATE minion_task SET earlier_seconds = NULL WHERE retries > 0;

-- What executors hold, each of the two that a subtask may run on: grafana_acquired has a row a subtask, with its owner.
CREATE VIEW grafana_held AS
SELECT executor_id, task_id, team, project, kind, subtask_id, acquired_at FROM grafana_acquired
UNION ALL
SELECT held.second_executor_id, held.task_id, held.team, held.project, task.kind, held.subtask_id, held.second_since
FROM minion_subtask_acquirement AS held JOIN minion_task AS task USING (task_id)
WHERE held.second_executor_id IS NOT NULL;
COMMENT ON VIEW grafana_held IS 'What executors work on; a subtask that was started a second time is there twice.';
