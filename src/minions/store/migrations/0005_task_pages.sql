-- What the pages about a task look for is rare among its ledger's entries; a partial index costs a commit nothing.

CREATE INDEX minion_subtask_ledger_set_aside ON minion_subtask_ledger (task_id, subtask_id) INCLUDE (entry, subtasks)
    WHERE entry IN ('failed', 'cancelled');

CREATE INDEX minion_subtask_ledger_failed_part ON minion_subtask_ledger (task_id, subtask_id, part_start)
    WHERE entry = 'part' AND failed_rows > 0;

CREATE INDEX minion_subtask_ledger_trouble ON minion_subtask_ledger (task_id, at, ledger_id)
    WHERE entry IN ('released', 'lost', 'fault', 'failed', 'cancelled');
