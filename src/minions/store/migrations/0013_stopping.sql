-- Jobs that were cancelled while an executor ran them: they may run until it has said that they do not, and what must not
-- run twice at the same time is handed out to nobody until then. In a table of its own, so that acquiring pays nothing.

CREATE TABLE minion_subtask_stopping (
    acquirement_id bigint PRIMARY KEY,
    executor_id bigint NOT NULL,
    task_id bigint NOT NULL,
    subtask_id integer NOT NULL,
    acquired_at timestamptz NOT NULL,
    cancelled_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE minion_subtask_stopping IS
    'Cancelled jobs of tasks of commands, each until the executor that held it says that it does not run any more.';
CREATE INDEX minion_subtask_stopping_executor ON minion_subtask_stopping (executor_id);

ALTER TABLE minion_subtask_queue ADD COLUMN waits_for bigint[];
COMMENT ON COLUMN minion_subtask_queue.waits_for IS
    'Acquirements of minion_subtask_stopping under which the same job may still run; when none is left, it is handed out.';
ALTER TABLE minion_subtask_queue ADD CONSTRAINT minion_subtask_queue_waits_for_check
    CHECK (waits_for IS NULL OR not_before IS NOT DISTINCT FROM 'infinity');
-- Partial, so that what waits for nothing does not pay for it.
CREATE INDEX minion_subtask_queue_waits_for ON minion_subtask_queue (task_id) WHERE waits_for IS NOT NULL;

CREATE OR REPLACE VIEW grafana_waiting AS
SELECT queue.task_id, task.team, task.project, task.kind, queue.end_subtask - queue.next_subtask AS subtasks,
    CASE WHEN queue.ready THEN 'ready' WHEN queue.waits_for IS NOT NULL THEN 'held_back'
        WHEN queue.not_before IS NOT NULL THEN 'delayed' ELSE 'paused' END AS state,
    queue.waiting_since
FROM minion_subtask_queue AS queue JOIN minion_task AS task USING (task_id);
