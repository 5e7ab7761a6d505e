-- split_progress
UPDATE minion_task SET subtask_count = subtask_count + $2, split_position = $3 WHERE task_id = $1;

-- enqueue_range
-- New subtasks [$2, $3) wait; in a paused task they are not ready.
INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
SELECT lane, priority, task_id, $2, $2, $3, NOT paused FROM minion_task WHERE task_id = $1;

-- list_parts
-- Committed parts in input order. $2, $3: after this subtask and start. $4: only those with failed rows.
SELECT subtask_id, part_start, part_end, rows, failed_rows, object_key, sha256, size_bytes, executor_id, detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND superseded_at IS NULL AND (subtask_id, part_start) > ($2, $3) AND ($4 = false OR failed_rows > 0)
ORDER BY subtask_id, part_start LIMIT $5;

-- list_ledger
-- Everything that became of the task's subtasks, oldest first; $2 after this entry, $3 entries wanted (null: all), $4 only
-- this subtask (null: any), for which the task's part of the ledger is read once: an index for it would cost each commit.
SELECT ledger_id, at, subtask_id, subtasks, entry, executor_id, attempt, rows, reason, message,
    superseded_at IS NOT NULL AS superseded, acquirement_id, object_key, sha256, size_bytes,
    CASE WHEN detail -> 'job' IS NOT NULL THEN detail END AS detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND ledger_id > $2 AND ($3::text[] IS NULL OR entry = ANY ($3))
    AND ($4::int IS NULL OR (subtask_id <= $4 AND subtask_id + subtasks > $4))
ORDER BY ledger_id LIMIT $5;
