-- Retrying what failed: parts and ends can be superseded, and stay in the ledger as what they were.

ALTER TABLE minion_task ADD COLUMN retries smallint NOT NULL DEFAULT 0 CHECK (retries >= 0);
ALTER TABLE minion_task ADD COLUMN retry_codes text[];
COMMENT ON COLUMN minion_task.retry_codes IS 'Which failed rows the last retry runs again; null: all.';

ALTER TABLE minion_subtask_queue ADD COLUMN retry text CHECK (retry IN ('rows', 'subtask'));
ALTER TABLE minion_subtask_acquirement ADD COLUMN retry text CHECK (retry IN ('rows', 'subtask'));
COMMENT ON COLUMN minion_subtask_queue.retry IS
    'rows: the subtask was done, and only failed rows of its parts are run again. subtask: it was set aside or cancelled, '
    'so the rest of its range is run too.';

ALTER TABLE minion_subtask_ledger ADD COLUMN superseded_at timestamptz;
ALTER TABLE minion_subtask_ledger ADD COLUMN kept_rows bigint NOT NULL DEFAULT 0 CHECK (kept_rows >= 0);
COMMENT ON COLUMN minion_subtask_ledger.superseded_at IS
    'Of a part: another part replaced it. Of an end: the subtask was retried. Counts and results leave such entries out.';
COMMENT ON COLUMN minion_subtask_ledger.kept_rows IS 'Rows taken over from the part that this one replaced: they were not run.';
ALTER TABLE minion_subtask_ledger ADD CHECK (kept_rows <= rows);
ALTER TABLE minion_subtask_ledger
    ADD CHECK (superseded_at IS NULL OR entry IN ('part', 'done', 'failed', 'cancelled'));
ALTER TABLE minion_subtask_ledger DROP CONSTRAINT minion_subtask_ledger_entry_check;
ALTER TABLE minion_subtask_ledger ADD CONSTRAINT minion_subtask_ledger_entry_check
    CHECK (entry IN ('part', 'released', 'lost', 'fault', 'retried', 'done', 'failed', 'cancelled'));
ALTER TABLE minion_subtask_ledger DROP CONSTRAINT minion_subtask_ledger_check5;
ALTER TABLE minion_subtask_ledger ADD CONSTRAINT minion_subtask_ledger_check5
    CHECK (subtasks = 1 OR entry IN ('cancelled', 'retried'));
COMMENT ON COLUMN minion_subtask_ledger.subtasks IS
    'A cancelled or retried entry stands for this many subtasks, from subtask_id on.';

-- One part a start and one end a subtask, of those that count.
DROP INDEX minion_subtask_ledger_part;
CREATE UNIQUE INDEX minion_subtask_ledger_part ON minion_subtask_ledger (task_id, subtask_id, part_start)
    INCLUDE (rows, failed_rows) WHERE entry = 'part' AND superseded_at IS NULL;
DROP INDEX minion_subtask_ledger_end;
CREATE UNIQUE INDEX minion_subtask_ledger_end ON minion_subtask_ledger (task_id, subtask_id)
    INCLUDE (entry, subtasks) WHERE entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL;
