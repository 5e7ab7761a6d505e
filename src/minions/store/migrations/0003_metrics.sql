-- How long subtasks wait, tokens that read metrics only, and what dashboards look for among millions of entries.

ALTER TABLE minion_subtask_queue ADD COLUMN waiting_since timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN minion_subtask_queue.waiting_since IS
    'Since when it can be handed out: a pause, or the delay after a fault, is no waiting.';
ALTER TABLE minion_subtask_acquirement ADD COLUMN waited_seconds real;
ALTER TABLE minion_subtask_ledger ADD COLUMN waited_seconds real;
COMMENT ON COLUMN minion_subtask_ledger.waited_seconds IS
    'How long the subtask had waited when it was acquired; in the entry with which that acquirement ended.';

ALTER TABLE minion_token DROP CONSTRAINT minion_token_scope_check;
ALTER TABLE minion_token ADD CONSTRAINT minion_token_scope_check
    CHECK (scope IN ('admin', 'submit', 'executor', 'metrics'));

CREATE INDEX minion_subtask_ledger_trouble_at ON minion_subtask_ledger (at)
    WHERE entry IN ('released', 'lost', 'fault', 'failed');
CREATE INDEX minion_subtask_ledger_failed_rows_at ON minion_subtask_ledger (at) WHERE entry = 'part' AND failed_rows > 0;

-- Ranges of pages are summarised as soon as they are full: the last ones, which everybody asks for, would wait for a vacuum.
ALTER INDEX minion_subtask_ledger_at SET (autosummarize = on);
ALTER INDEX minion_heartbeat_at SET (autosummarize = on);
