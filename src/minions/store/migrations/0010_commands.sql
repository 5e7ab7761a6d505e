-- Commands: jobs that stay with a silent executor, and the same job found again in other tasks.

ALTER TABLE minion_task ADD COLUMN keeps_owner boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN minion_task.keeps_owner IS 'What an executor holds of it stays its own when it falls silent: it may be running it still.';

-- Few tasks, looked up at every pass of the watchdog.
CREATE INDEX minion_task_keeps_owner ON minion_task (task_id) WHERE keeps_owner AND ended_at IS NULL;

-- Partial, so that parts with rows do not pay for it.
CREATE INDEX minion_subtask_ledger_job ON minion_subtask_ledger ((detail -> 'job' ->> 'id'))
    WHERE entry = 'part' AND (detail -> 'job') IS NOT NULL;
