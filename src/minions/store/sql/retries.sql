-- retry_counts
-- What a retry of $1 would run again: failed rows with one of the codes $2 (null: all) in subtasks that are done, and
-- subtasks that were set aside (by the code with which they were) or cancelled.
SELECT coalesce(sum(rows) FILTER (WHERE entry = 'done'), 0)::bigint AS rows,
    coalesce(sum(subtasks), 0)::int AS subtasks,
    coalesce(sum(subtasks) FILTER (WHERE entry = 'failed'), 0)::int AS set_aside,
    coalesce(sum(subtasks) FILTER (WHERE entry = 'cancelled'), 0)::int AS cancelled
FROM (
    SELECT 'done' AS entry, ended.subtasks, failed.rows
    FROM (
        SELECT part.subtask_id, sum(CASE WHEN $2::text[] IS NULL THEN part.failed_rows ELSE (
                SELECT coalesce(sum(count::bigint), 0)
                FROM jsonb_each_text(part.detail -> 'failures') AS failure (code, count) WHERE code = ANY ($2)
            ) END)::bigint AS rows
        FROM minion_subtask_ledger AS part
        WHERE part.task_id = $1 AND part.entry = 'part' AND part.superseded_at IS NULL AND part.failed_rows > 0
            AND ($2 IS NULL OR part.detail -> 'failures' ?| $2)
        GROUP BY part.subtask_id
    ) AS failed
    JOIN minion_subtask_ledger AS ended ON ended.task_id = $1 AND ended.subtask_id = failed.subtask_id
        AND ended.entry = 'done' AND ended.superseded_at IS NULL
    UNION ALL
    SELECT entry, subtasks, 0 FROM minion_subtask_ledger AS ended
    WHERE ended.task_id = $1 AND ended.entry IN ('failed', 'cancelled') AND ended.superseded_at IS NULL
        AND ($2 IS NULL OR CASE ended.entry WHEN 'failed' THEN ended.reason ELSE 'cancelled' END = ANY ($2))
) AS found;

-- retry_objects
-- The inputs that a retry reads again (as above), each with what it was when the task was split.
SELECT DISTINCT subtask.object, subtask.object_etag
FROM minion_subtask_ledger AS ended
JOIN minion_subtask AS subtask ON subtask.task_id = ended.task_id AND subtask.subtask_id >= ended.subtask_id
    AND subtask.subtask_id < ended.subtask_id + ended.subtasks
WHERE ended.task_id = $1 AND ended.superseded_at IS NULL AND CASE ended.entry
        WHEN 'done' THEN EXISTS (
            SELECT FROM minion_subtask_ledger AS part
            WHERE part.task_id = $1 AND part.subtask_id = ended.subtask_id AND part.entry = 'part'
                AND part.superseded_at IS NULL AND part.failed_rows > 0
                AND ($2::text[] IS NULL OR part.detail -> 'failures' ?| $2)
        )
        WHEN 'failed' THEN $2 IS NULL OR ended.reason = ANY ($2)
        WHEN 'cancelled' THEN $2 IS NULL OR 'cancelled' = ANY ($2)
        ELSE false END
    AND ended.entry IN ('done', 'failed', 'cancelled')
LIMIT 1001;

-- reopen_task
-- An ended task goes on, because somebody asked for it: the only step that leaves an end. Its counts are the ledger's again.
UPDATE minion_task SET state = $2, state_reason = '', retries = retries + 1, retry_codes = $3, totals = NULL,
    ended_at = NULL, paused = false, started_at = coalesce(started_at, now()), retried_at = now(),
    earlier_seconds = earlier_seconds + coalesce(extract(epoch FROM ended_at - coalesce(retried_at, started_at)), 0)
WHERE task_id = $1 AND state = ANY ($4::text[])
RETURNING task_id;

-- retry_subtasks
-- The ends of what is retried are superseded, and the subtasks wait again; parts stay as they are until another replaces
-- them. $1 task, locked; $2 codes (null: all), $3 who retries, $4 entries: those whose ends these are, $5 and $6 of the
-- entries that begin in [$5, $6): a million at once would take longer than a statement may.
-- A subtask begins at its first part with rows to be run again, or where its parts end. Those that begin where their
-- range does wait together, a thousand a range, so that many servers do not wait for one row.
WITH ended AS MATERIALIZED (
    SELECT ledger_id, number AS subtask_id, entry, reason
    FROM minion_subtask_ledger AS ledger
    CROSS JOIN LATERAL generate_series(ledger.subtask_id, ledger.subtask_id + ledger.subtasks - 1) AS number
    WHERE task_id = $1 AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
        AND entry = ANY ($4::text[]) AND subtask_id >= $5 AND subtask_id < $6
), part AS MATERIALIZED (
    SELECT subtask_id, max(part_end) AS reached, min(part_start) FILTER (
        WHERE failed_rows > 0 AND ($2::text[] IS NULL OR detail -> 'failures' ?| $2)
    ) AS first_failed
    FROM minion_subtask_ledger
    WHERE task_id = $1 AND entry = 'part' AND superseded_at IS NULL AND subtask_id >= $5
        AND (subtask_id < $6 OR 'cancelled' = ANY ($4))
    GROUP BY subtask_id
), chosen AS MATERIALIZED (
    SELECT ended.ledger_id, ended.subtask_id, CASE ended.entry WHEN 'done' THEN 'rows' ELSE 'subtask' END AS retry,
        nullif(coalesce(part.first_failed, part.reached), subtask.range_start) AS cursor
    FROM ended LEFT JOIN part USING (subtask_id)
    JOIN minion_subtask AS subtask ON subtask.task_id = $1 AND subtask.subtask_id = ended.subtask_id
    WHERE CASE ended.entry WHEN 'done' THEN part.first_failed IS NOT NULL
        WHEN 'failed' THEN $2 IS NULL OR ended.reason = ANY ($2)
        ELSE $2 IS NULL OR 'cancelled' = ANY ($2) END
), superseded AS (
    UPDATE minion_subtask_ledger SET superseded_at = clock_timestamp()
    WHERE ledger_id IN (SELECT ledger_id FROM chosen)
), placed AS (
    SELECT subtask_id, retry, cursor,
        subtask_id - row_number() OVER (PARTITION BY retry, cursor IS NULL ORDER BY subtask_id) AS island
    FROM chosen
), waiting AS MATERIALIZED (
    SELECT min(subtask_id) AS first, max(subtask_id) + 1 AS past, retry, max(cursor) AS cursor
    FROM placed
    GROUP BY retry, island, cursor IS NULL, CASE WHEN cursor IS NULL THEN subtask_id / 1000 ELSE -subtask_id END
), queued AS (
    INSERT INTO minion_subtask_queue
        (lane, priority, task_id, first_subtask, next_subtask, end_subtask, cursor, retry, ready)
    SELECT task.lane, task.priority, $1, waiting.first, waiting.first, waiting.past, waiting.cursor, waiting.retry, true
    FROM waiting JOIN minion_task AS task ON task.task_id = $1
    ORDER BY waiting.first
)
INSERT INTO minion_subtask_ledger (task_id, subtask_id, subtasks, entry, reason)
SELECT $1, first, past - first, 'retried', $3 FROM waiting ORDER BY first
RETURNING subtasks;

-- parts_to_run_again
-- Parts of the subtask, from $3 on, with failed rows that the retry concerns; their rows that worked are kept.
SELECT part_start, part_end, rows, failed_rows, sha256, size_bytes, object_key
FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
WHERE part.task_id = $1 AND part.subtask_id = $2 AND part.part_start >= $3 AND part.entry = 'part'
    AND part.superseded_at IS NULL AND part.failed_rows > 0
    AND (task.retry_codes IS NULL OR part.detail -> 'failures' ?| task.retry_codes)
ORDER BY part.part_start;

-- part_at
-- The part of the subtask that begins there.
SELECT object_key FROM minion_subtask_ledger
WHERE task_id = $1 AND subtask_id = $2 AND part_start = $3 AND entry = 'part' AND superseded_at IS NULL;

-- parts_reach
-- Where the parts of the subtask end; null when it has none.
SELECT max(part_end) AS reached FROM minion_subtask_ledger
WHERE task_id = $1 AND subtask_id = $2 AND entry = 'part' AND superseded_at IS NULL;

-- replace_part
-- A part of a retried subtask takes the place of the one at the cursor. $1 acquirement, $2 executor, $3 task, $4 subtask,
-- $5 start, $6 end, $7 final, $8 unfinished (the cursor stays: some of its failed rows were not run), $9 rows, $10 failed,
-- $11 truncated, $12 kept, $13 key, $14 sha256, $15 bytes, $16 input tokens, $17 output tokens, $18 seconds, $19 detail.
-- The new part covers what the old one did: the same positions, as many rows, all that had worked, and no more failed.
-- An acquirement replaces a part once: its key is made of the two, and an object must not be written again.
-- It is final when nothing is left to run and the subtask had been done before.
WITH owned AS MATERIALIZED (
    SELECT * FROM minion_subtask_acquirement
    WHERE acquirement_id = $1 AND executor_id = $2 AND task_id = $3 AND subtask_id = $4 AND cursor = $5
        AND retry IS NOT NULL
    FOR UPDATE
), fitting AS MATERIALIZED (
    SELECT owned.*, replaced.ledger_id,
        CASE WHEN $8 THEN owned.cursor ELSE coalesce(following.part_start, reached.part_end) END AS next_cursor
    FROM owned
    CROSS JOIN LATERAL (
        SELECT ledger_id FROM minion_subtask_ledger AS part
        WHERE part.task_id = $3 AND part.subtask_id = $4 AND part.part_start = $5 AND part.entry = 'part'
            AND part.superseded_at IS NULL AND part.part_end = $6 AND part.acquirement_id <> $1
            AND part.rows = $9 AND part.failed_rows >= $10 AND part.rows - part.failed_rows <= $12
    ) AS replaced
    CROSS JOIN LATERAL (
        SELECT min(part_start) AS part_start
        FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
        WHERE part.task_id = $3 AND part.subtask_id = $4 AND part.part_start > $5 AND part.entry = 'part'
            AND part.superseded_at IS NULL AND part.failed_rows > 0
            AND (task.retry_codes IS NULL OR part.detail -> 'failures' ?| task.retry_codes)
    ) AS following
    CROSS JOIN LATERAL (
        SELECT max(part_end) AS part_end FROM minion_subtask_ledger AS part
        WHERE part.task_id = $3 AND part.subtask_id = $4 AND part.entry = 'part' AND part.superseded_at IS NULL
    ) AS reached
    WHERE $7::boolean = (NOT $8::boolean AND owned.retry = 'rows' AND following.part_start IS NULL)
), superseded AS (
    UPDATE minion_subtask_ledger AS ledger SET superseded_at = clock_timestamp() FROM fitting
    WHERE ledger.ledger_id = fitting.ledger_id
    RETURNING ledger.ledger_id
), ended AS (
    DELETE FROM minion_subtask_acquirement AS held USING fitting
    WHERE $7 AND held.acquirement_id = fitting.acquirement_id
    RETURNING held.*
), advanced AS (
    UPDATE minion_subtask_acquirement AS held SET cursor = fitting.next_cursor FROM fitting
    WHERE NOT $7 AND held.acquirement_id = fitting.acquirement_id
), parts AS (
    -- The count comes first: the old part must have left the unique index before the new one enters it.
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, part_start, part_end, rows,
        failed_rows, truncated_rows, kept_rows, object_key, sha256, size_bytes, input_tokens, output_tokens, seconds, detail)
    SELECT task_id, subtask_id, 'part', executor_id, acquirement_id, attempt, losses, $5, $6, $9, $10, $11, $12, $13, $14,
        $15, $16, $17, $18, $19
    FROM fitting WHERE (SELECT count(*) FROM superseded) = 1
), ends AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, waited_seconds)
    SELECT task_id, subtask_id, 'done', executor_id, acquirement_id, attempt, losses, waited_seconds FROM ended
)
SELECT acquirement_id FROM fitting;

-- not_retried
-- Subtasks whose retry was given up or cancelled: they are done with the rows that they had.
SELECT count(*)::int AS subtasks FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'done' AND superseded_at IS NULL AND reason <> '';
