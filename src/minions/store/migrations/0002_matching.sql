-- What matching needs to say its reasons, and to send the next attempt at a subtask to another executor.

ALTER TABLE minion_executor
    ADD COLUMN teams text[],
    ADD COLUMN leaves jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN minion_executor.teams IS 'Teams that it works for; null: all.';
COMMENT ON COLUMN minion_executor.leaves IS 'Tasks that it leaves alone for now, each with the reason, as it said last.';

ALTER TABLE minion_subtask_queue
    ADD COLUMN avoid bigint[],
    ADD COLUMN avoid_until timestamptz,
    ADD CHECK ((avoid IS NULL) = (avoid_until IS NULL));
COMMENT ON COLUMN minion_subtask_queue.avoid IS
    'Executors that tried it and could not: others come first, until avoid_until.';
ALTER TABLE minion_subtask_acquirement ADD COLUMN avoid bigint[];

ALTER TABLE minion_task ADD COLUMN weight_bytes bigint CHECK (weight_bytes > 0);
COMMENT ON COLUMN minion_task.weight_bytes IS 'Of its model, as measured by the executor that made the first part.';
CREATE INDEX minion_task_weights ON minion_task (model, task_id) WHERE weight_bytes IS NOT NULL;
