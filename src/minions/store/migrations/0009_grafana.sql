-- Views that Grafana reads. Their columns stay while tables change. No prompt, no input, no object, no token: whoever reads
-- these sees names and numbers. They run with the rights of their owner, so a role that may read them needs no other.
CREATE VIEW grafana_task AS
SELECT task_id, team, project, task_name, kind, engine, model, priority, state, state_reason, paused,
    state IN ('submitted', 'splitting', 'running', 'finishing') AS open, subtask_count, input_bytes, created_at,
    started_at, ended_at
FROM minion_task;

CREATE VIEW grafana_executor AS
SELECT executor_id, name, owner, version, coalesce(device ->> 'chip', '') AS chip, kinds, memory_mb, state,
    state_reason, state_since, registered_at, last_seen_at
FROM minion_executor;

CREATE VIEW grafana_sample AS
SELECT sample.executor_id, executor.name AS executor, sample.at, sample.state,
    (sample.sample ->> 'memory_free_mb')::float8 AS memory_free_mb, (sample.sample ->> 'load_1m')::float8 AS load_1m
FROM minion_heartbeat AS sample JOIN minion_executor AS executor USING (executor_id);

CREATE VIEW grafana_waiting AS
SELECT queue.task_id, task.team, task.project, task.kind, queue.end_subtask - queue.next_subtask AS subtasks,
    CASE WHEN queue.ready THEN 'ready' WHEN queue.not_before IS NOT NULL THEN 'delayed' ELSE 'paused' END AS state,
    queue.waiting_since
FROM minion_subtask_queue AS queue JOIN minion_task AS task USING (task_id);

CREATE VIEW grafana_acquired AS
SELECT held.task_id, held.team, held.project, task.kind, held.subtask_id, held.executor_id, held.acquired_at,
    held.waited_seconds
FROM minion_subtask_acquirement AS held JOIN minion_task AS task USING (task_id);

CREATE VIEW grafana_part AS
SELECT part.at, part.task_id, task.team, task.project, task.kind, task.engine, task.model, part.executor_id,
    coalesce(executor.name, '') AS executor, part.rows, part.rows - part.kept_rows AS worked_rows, part.failed_rows,
    part.truncated_rows, part.input_bytes, part.input_tokens, part.output_tokens, part.seconds,
    part.superseded_at IS NOT NULL AS superseded
FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
LEFT JOIN minion_executor AS executor ON executor.executor_id = part.executor_id
WHERE part.entry = 'part';

CREATE VIEW grafana_failed_rows AS
SELECT part.at, part.task_id, task.team, task.project, task.kind, task.model, part.executor_id, failure.code,
    failure.rows::bigint AS rows, part.superseded_at IS NOT NULL AS superseded
FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
CROSS JOIN LATERAL jsonb_each_text(part.detail -> 'failures') AS failure (code, rows)
WHERE part.entry = 'part' AND part.failed_rows > 0;

CREATE VIEW grafana_ledger AS
SELECT ledger.at, ledger.entry, ledger.reason, ledger.task_id, task.team, task.project, task.kind, task.model,
    ledger.subtask_id, ledger.subtasks, ledger.executor_id, coalesce(executor.name, '') AS executor, ledger.attempt,
    ledger.losses, ledger.waited_seconds, ledger.superseded_at IS NOT NULL AS superseded
FROM minion_subtask_ledger AS ledger JOIN minion_task AS task USING (task_id)
LEFT JOIN minion_executor AS executor ON executor.executor_id = ledger.executor_id
WHERE ledger.entry <> 'part';
COMMENT ON VIEW grafana_ledger IS 'What became of subtasks, other than parts.';
COMMENT ON COLUMN grafana_ledger.superseded IS 'The subtask was retried: it has another end, or will have.';
COMMENT ON COLUMN grafana_part.worked_rows IS 'Without those that a retry took over from the part that it replaced.';
COMMENT ON COLUMN grafana_part.superseded IS 'A retry replaced it: it was worked on, and is no part of the results.';
