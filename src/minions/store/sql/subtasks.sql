-- split_progress
UPDATE minion_task SET subtask_count = subtask_count + $2, split_position = $3 WHERE task_id = $1;

-- enqueue_range
-- New subtasks [$2, $3) wait; in a paused task they are not ready.
INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
SELECT lane, priority, task_id, $2, $2, $3, NOT paused FROM minion_task WHERE task_id = $1;

-- list_subtasks
-- A page of subtasks with where each stands. $2 state (null: any), $3 after this number. Ends do not overlap, so the
-- nearest at or before a subtask is the only one that can cover it; what waits would else be looked for among all ends.
SELECT subtask.subtask_id, subtask.object, subtask.range_start, subtask.range_end,
    CASE WHEN held.acquirement_id IS NOT NULL THEN 'acquired' ELSE coalesce(ended.entry, 'queued') END AS state,
    held.executor_id AS holder, coalesce(held.attempt, ended.attempt, waiting.attempt, 0) AS attempt,
    coalesce(held.losses, ended.losses, waiting.losses, 0) AS losses, coalesce(ended.reason, '') AS reason,
    ended.executor_id AS ended_by, parts.rows, parts.failed_rows
FROM minion_subtask AS subtask
LEFT JOIN minion_subtask_acquirement AS held
    ON held.task_id = subtask.task_id AND held.subtask_id = subtask.subtask_id
LEFT JOIN LATERAL (
    SELECT nearest.* FROM (
        SELECT ledger.subtask_id + ledger.subtasks AS beyond, entry, reason, attempt, losses, executor_id
        FROM minion_subtask_ledger AS ledger
        WHERE ledger.task_id = subtask.task_id AND ledger.subtask_id <= subtask.subtask_id
            AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
        ORDER BY ledger.subtask_id DESC LIMIT 1
    ) AS nearest
    WHERE nearest.beyond > subtask.subtask_id
) AS ended ON true
LEFT JOIN LATERAL (
    SELECT attempt, losses FROM minion_subtask_queue AS queue
    WHERE queue.task_id = subtask.task_id AND queue.next_subtask <= subtask.subtask_id
        AND queue.end_subtask > subtask.subtask_id
    LIMIT 1
) AS waiting ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(rows), 0)::bigint AS rows, coalesce(sum(failed_rows), 0)::bigint AS failed_rows
    FROM minion_subtask_ledger AS part
    WHERE part.task_id = subtask.task_id AND part.subtask_id = subtask.subtask_id AND part.entry = 'part'
        AND part.superseded_at IS NULL
) AS parts
WHERE subtask.task_id = $1 AND subtask.subtask_id > $3
    AND ($2::text IS NULL
        OR $2 = CASE WHEN held.acquirement_id IS NOT NULL THEN 'acquired' ELSE coalesce(ended.entry, 'queued') END)
ORDER BY subtask.subtask_id LIMIT $4;

-- list_parts
-- Committed parts in input order. $2, $3: after this subtask and start. $4: only those with failed rows.
SELECT subtask_id, part_start, part_end, rows, failed_rows, object_key, sha256, size_bytes, executor_id, detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND superseded_at IS NULL AND (subtask_id, part_start) > ($2, $3) AND ($4 = false OR failed_rows > 0)
ORDER BY subtask_id, part_start LIMIT $5;

-- list_ledger
-- Everything that became of the task's subtasks, oldest first; $2 after this entry, $3 entries wanted (null: all).
SELECT ledger_id, at, subtask_id, subtasks, entry, executor_id, attempt, rows, reason, message,
    superseded_at IS NOT NULL AS superseded, acquirement_id, object_key, sha256, size_bytes,
    CASE WHEN detail -> 'job' IS NOT NULL THEN detail END AS detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND ledger_id > $2 AND ($3::text[] IS NULL OR entry = ANY ($3))
ORDER BY ledger_id LIMIT $4;
