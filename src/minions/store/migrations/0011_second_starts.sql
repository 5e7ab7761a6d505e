-- Second starts: when nothing waits any more, what runs longest may run in a second place as well. It gets columns of the
-- row that owns the subtask, not a row of its own: whoever is in that row as its executor is the one owner, as ever.

ALTER TABLE minion_task ADD COLUMN second_start boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN minion_task.second_start IS 'What runs longest of it may be started a second time when nothing of it waits.';
-- Few tasks, looked up by executors that have nothing to do.
CREATE INDEX minion_task_second_start ON minion_task (task_id) WHERE second_start AND ended_at IS NULL;

ALTER TABLE minion_subtask_acquirement ADD COLUMN second_id bigint;
ALTER TABLE minion_subtask_acquirement ADD COLUMN second_executor_id bigint;
ALTER TABLE minion_subtask_acquirement ADD COLUMN second_since timestamptz;
COMMENT ON COLUMN minion_subtask_acquirement.second_id IS
    'The fence of a second start, drawn from the sequence of acquirement_id: it becomes that when the second start takes over.';
COMMENT ON COLUMN minion_subtask_acquirement.second_since IS
    'When it was started a second time; it stays when that start has ended, so that there is no third one.';
ALTER TABLE minion_subtask_acquirement ADD CONSTRAINT minion_subtask_acquirement_second_check
    CHECK ((second_id IS NULL) = (second_executor_id IS NULL) AND (second_id IS NULL OR second_since IS NOT NULL));
ALTER TABLE minion_subtask_acquirement ADD CONSTRAINT minion_subtask_acquirement_elsewhere_check
    CHECK (second_executor_id <> executor_id);
-- Partial, so that acquiring does not pay for them.
CREATE UNIQUE INDEX minion_subtask_acquirement_second ON minion_subtask_acquirement (second_id)
    WHERE second_id IS NOT NULL;
CREATE INDEX minion_subtask_acquirement_second_executor ON minion_subtask_acquirement (second_executor_id)
    WHERE second_executor_id IS NOT NULL;

ALTER TABLE minion_subtask_ledger DROP CONSTRAINT minion_subtask_ledger_entry_check;
ALTER TABLE minion_subtask_ledger ADD CONSTRAINT minion_subtask_ledger_entry_check
    CHECK (entry IN ('part', 'second_start', 'released', 'lost', 'fault', 'retried', 'done', 'failed', 'cancelled'));
