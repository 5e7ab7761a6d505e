-- browse_tasks
-- One page of the tasks that match, with how many there are in each state: one statement, so that table, counts and
-- pills never contradict each other. $1 team, $2 project, $3 kind, $4 a part of the name (each null: any), $5 teams
-- that the token reaches (null: all), $6 states, $7 whether paused (null: any), $8 before this id, $9 after this id.
-- $10 rows wanted. $11 no newer task than this one (null: any). Two scans cost half of what one costs whose rows are kept
-- for both.
WITH counted AS (
    SELECT jsonb_object_agg(state || CASE WHEN paused THEN ' paused' ELSE '' END, tasks) AS counts FROM (
    SELECT state, paused AND ended_at IS NULL AS paused, count(*) AS tasks FROM minion_task
    WHERE ($1::text IS NULL OR team = $1) AND ($2::text IS NULL OR project = $2) AND ($3::text IS NULL OR kind = $3)
        AND ($4::text IS NULL OR strpos(team || '/' || project || '/' || task_name, lower($4)) > 0)
        AND ($5::text[] IS NULL OR team = ANY ($5)) AND ($11::bigint IS NULL OR task_id <= $11)
    GROUP BY 1, 2) AS by_state
), page AS MATERIALIZED (
    SELECT * FROM minion_task
    WHERE ($1::text IS NULL OR team = $1) AND ($2::text IS NULL OR project = $2) AND ($3::text IS NULL OR kind = $3)
        AND ($4::text IS NULL OR strpos(team || '/' || project || '/' || task_name, lower($4)) > 0)
        AND ($5::text[] IS NULL OR team = ANY ($5)) AND ($11::bigint IS NULL OR task_id <= $11)
        AND ($6::text[] IS NULL OR state = ANY ($6)) AND ($7::boolean IS NULL OR paused = $7)
        AND ($8::bigint IS NULL OR task_id < $8) AND ($9::bigint IS NULL OR task_id > $9)
    ORDER BY CASE WHEN $9::bigint IS NOT NULL THEN task_id END, task_id DESC LIMIT $10
)
SELECT coalesce(counted.counts, '{}') AS counts, page.* FROM counted LEFT JOIN page ON true
ORDER BY page.task_id DESC;

-- task_places
-- Teams and projects that tasks have, for choosing one; a loose index scan, since there are few of them.
WITH RECURSIVE place AS (
    (SELECT team, project FROM minion_task WHERE ($1::text[] IS NULL OR team = ANY ($1)) ORDER BY team, project LIMIT 1)
    UNION ALL
    SELECT following.* FROM place CROSS JOIN LATERAL (
        SELECT team, project FROM minion_task
        WHERE (team, project) > (place.team, place.project) AND ($1::text[] IS NULL OR team = ANY ($1))
        ORDER BY team, project LIMIT 1
    ) AS following
)
SELECT team, project FROM place LIMIT 500;

-- changeable_tasks
-- The next tasks that match and that the verb would change, by number; parameters as browse_tasks, $8 after this id,
-- $9 these tasks only (null: any).
SELECT task_id FROM minion_task
WHERE ($1::text IS NULL OR team = $1) AND ($2::text IS NULL OR project = $2) AND ($3::text IS NULL OR kind = $3)
    AND ($4::text IS NULL OR strpos(team || '/' || project || '/' || task_name, lower($4)) > 0)
    AND ($5::text[] IS NULL OR team = ANY ($5)) AND state = ANY ($6::text[]) AND ($7::boolean IS NULL OR paused = $7)
    AND task_id > $8 AND ($9::bigint[] IS NULL OR task_id = ANY ($9)) AND ($10::bigint IS NULL OR task_id <= $10)
ORDER BY task_id LIMIT $11;

-- count_changeable
-- How many those are, how many match at all, and the newest that there is.
SELECT count(*)::int AS matching, max(task_id) AS newest,
    count(*) FILTER (WHERE ($7::text[] IS NULL OR state = ANY ($7)) AND ($8::boolean IS NULL OR paused = $8))::int
        AS changeable
FROM minion_task
WHERE ($1::text IS NULL OR team = $1) AND ($2::text IS NULL OR project = $2) AND ($3::text IS NULL OR kind = $3)
    AND ($4::text IS NULL OR strpos(team || '/' || project || '/' || task_name, lower($4)) > 0)
    AND ($5::text[] IS NULL OR team = ANY ($5)) AND ($6::text[] IS NULL OR state = ANY ($6))
    AND ($9::boolean IS NULL OR paused = $9) AND ($10::bigint[] IS NULL OR task_id = ANY ($10))
    AND ($11::bigint IS NULL OR task_id <= $11);

-- rows_by_minute
-- Rows committed in each minute from $2 on, up to $3. What a retry took over was not made then.
SELECT date_trunc('minute', at) AS minute, sum(rows - kept_rows)::bigint AS rows
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND at >= $2 AND at <= $3
GROUP BY 1 ORDER BY 1;

-- held_subtasks
-- What is under way of a task: one row an executor's subtask, the longest first.
SELECT subtask_id, acquirement_id, executor_id, attempt, acquired_at FROM minion_subtask_acquirement
WHERE task_id = $1 ORDER BY acquirement_id LIMIT $2;

-- given_back
-- Subtasks that wait after an executor had them.
SELECT first_subtask AS subtask_id FROM minion_subtask_queue
WHERE task_id = $1 AND cursor IS NOT NULL ORDER BY first_subtask LIMIT $2;

-- cancelled_ranges
SELECT subtask_id, subtasks FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'cancelled' AND superseded_at IS NULL ORDER BY subtask_id LIMIT $2;

-- lane_entries
-- The latest entries of a task's ledger up to $2, newest first: whose lanes there are, and what their bars are.
-- $3 entries at most. Reading by time keeps it bounded however long the task is.
SELECT at, subtask_id, entry, executor_id, acquirement_id, rows - kept_rows AS rows, failed_rows, reason,
    CASE entry WHEN 'part' THEN seconds ELSE coalesce((detail ->> 'held_seconds')::float8, 0) END AS seconds
FROM minion_subtask_ledger
WHERE task_id = $1 AND at <= $2 AND at > $2::timestamptz - interval '1 hour' AND executor_id IS NOT NULL
ORDER BY at DESC, ledger_id DESC LIMIT $3;

-- executor_standings
-- How some executors are, for saying why their lanes are empty.
SELECT executor_id, name, state, state_reason, state_since FROM minion_executor_standing WHERE executor_id = ANY ($1::bigint[]);

-- heartbeat_states
-- In which states some executors said they were, since $2.
SELECT executor_id, at, state FROM minion_heartbeat
WHERE executor_id = ANY ($1::bigint[]) AND at > $2 ORDER BY executor_id, at LIMIT 5000;

-- subtask_numbers
-- The numbers of the next subtasks after $2, whatever their state.
SELECT subtask_id FROM minion_subtask WHERE task_id = $1 AND subtask_id > $2 ORDER BY subtask_id LIMIT $3;

-- subtask_numbers_acquired
SELECT subtask_id FROM minion_subtask_acquirement WHERE task_id = $1 AND subtask_id > $2 ORDER BY subtask_id LIMIT $3;

-- subtask_numbers_queued
-- Ranges are few; each gives no more numbers than are wanted.
SELECT number AS subtask_id FROM minion_subtask_queue AS queue
CROSS JOIN LATERAL generate_series(
    greatest(next_subtask, $2::int + 1), least(end_subtask - 1, greatest(next_subtask, $2::int + 1) + $3::int - 1)
) AS number
WHERE task_id = $1 AND end_subtask - 1 > $2 ORDER BY number LIMIT $3;

-- subtask_numbers_done
SELECT subtask_id FROM minion_subtask_ledger
WHERE task_id = $1 AND subtask_id > $2 AND entry = 'done' AND superseded_at IS NULL ORDER BY subtask_id LIMIT $3;

-- subtask_numbers_failed
SELECT subtask_id FROM minion_subtask_ledger
WHERE task_id = $1 AND subtask_id > $2 AND entry = 'failed' AND superseded_at IS NULL ORDER BY subtask_id LIMIT $3;

-- subtask_numbers_cancelled
SELECT number AS subtask_id FROM minion_subtask_ledger AS ledger
CROSS JOIN LATERAL generate_series(
    greatest(subtask_id, $2::int + 1),
    least(subtask_id + subtasks - 1, greatest(subtask_id, $2::int + 1) + $3::int - 1)
) AS number
WHERE task_id = $1 AND entry = 'cancelled' AND superseded_at IS NULL AND subtask_id + subtasks - 1 > $2 ORDER BY number LIMIT $3;

-- subtasks_numbered
-- Where these subtasks stand. Ends do not overlap, so the nearest at or before a subtask is the only one that can
-- cover it.
SELECT subtask.subtask_id, subtask.object, subtask.range_start, subtask.range_end,
    CASE WHEN held.acquirement_id IS NOT NULL THEN 'acquired'
        WHEN ended.subtask_id + ended.subtasks > subtask.subtask_id THEN ended.entry ELSE 'queued' END AS state,
    held.executor_id AS holder, held.second_executor_id, held.cursor, held.acquired_at, ended.executor_id AS ended_by,
    ended.subtask_id + ended.subtasks > subtask.subtask_id AS is_ended, ended.reason, ended.at AS ended_at,
    coalesce(held.attempt, CASE WHEN ended.subtask_id = subtask.subtask_id THEN ended.attempt END, waiting.attempt, 0)
        AS attempt,
    coalesce(held.losses, CASE WHEN ended.subtask_id = subtask.subtask_id THEN ended.losses END, waiting.losses, 0)
        AS losses,
    waiting.cursor IS NOT NULL AS given_back, parts.rows, parts.failed_rows, parts.seconds
FROM unnest($2::int[]) AS wanted (subtask_id)
JOIN minion_subtask AS subtask ON subtask.task_id = $1 AND subtask.subtask_id = wanted.subtask_id
LEFT JOIN minion_subtask_acquirement AS held ON held.team = $3 AND held.project = $4 AND held.task_name = $5
    AND held.subtask_id = subtask.subtask_id
LEFT JOIN LATERAL (
    SELECT subtask_id, subtasks, entry, reason, attempt, losses, executor_id, at FROM minion_subtask_ledger AS ledger
    WHERE ledger.task_id = $1 AND ledger.subtask_id <= subtask.subtask_id
        AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
    ORDER BY ledger.subtask_id DESC LIMIT 1
) AS ended ON true
LEFT JOIN LATERAL (
    SELECT attempt, losses, cursor FROM minion_subtask_queue AS queue
    WHERE queue.task_id = $1 AND queue.first_subtask = subtask.subtask_id AND queue.cursor IS NOT NULL
    LIMIT 1
) AS waiting ON true
CROSS JOIN LATERAL (
    SELECT coalesce(sum(rows), 0)::bigint AS rows, coalesce(sum(failed_rows), 0)::bigint AS failed_rows,
        coalesce(sum(seconds), 0)::float8 AS seconds
    FROM minion_subtask_ledger AS part
    WHERE part.task_id = $1 AND part.subtask_id = subtask.subtask_id AND part.entry = 'part'
        AND superseded_at IS NULL
) AS parts
ORDER BY subtask.subtask_id;

-- activity
-- The ledger of a task, the latest first. $2, $3: before this moment and entry (null: from the newest).
SELECT ledger_id, at, subtask_id, subtasks, entry, executor_id, attempt, losses, rows, failed_rows, reason, message,
    seconds
FROM minion_subtask_ledger
WHERE task_id = $1 AND ($2::timestamptz IS NULL OR (at, ledger_id) < ($2, $3::bigint))
ORDER BY at DESC, ledger_id DESC LIMIT $4;

-- activity_troubles
-- The same of what is neither a part nor a subtask that is done.
SELECT ledger_id, at, subtask_id, subtasks, entry, executor_id, attempt, losses, rows, failed_rows, reason, message,
    seconds
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry IN ('released', 'lost', 'fault', 'failed', 'cancelled')
    AND ($2::timestamptz IS NULL OR (at, ledger_id) < ($2, $3::bigint))
ORDER BY at DESC, ledger_id DESC LIMIT $4;

-- parts_from
-- Committed parts in input order, from this subtask and start on.
SELECT subtask_id, part_start, part_end, rows, failed_rows, object_key, sha256, size_bytes, executor_id, detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND (subtask_id, part_start) >= ($2, $3::bigint) AND rows > 0
    AND superseded_at IS NULL
ORDER BY subtask_id, part_start LIMIT $4;

-- parts_back_from
-- The same backwards, from before this subtask and start.
SELECT subtask_id, part_start, part_end, rows, failed_rows, object_key, sha256, size_bytes, executor_id, detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND (subtask_id, part_start) < ($2, $3::bigint) AND rows > 0
    AND superseded_at IS NULL
ORDER BY subtask_id DESC, part_start DESC LIMIT $4;

-- rows_between
-- Rows of the parts from subtask $2 on that come before the part at ($3, $4).
SELECT coalesce(sum(rows), 0)::bigint AS rows FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND subtask_id >= $2 AND (subtask_id, part_start) < ($3, $4::bigint)
    AND superseded_at IS NULL;

-- failed_parts_after
-- Parts with failed rows, in input order, after this subtask and start.
SELECT subtask_id, part_start, part_end, rows, failed_rows, object_key, sha256, size_bytes, executor_id, detail
FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'part' AND failed_rows > 0 AND superseded_at IS NULL
    AND (subtask_id, part_start) > ($2, $3::bigint)
ORDER BY subtask_id, part_start LIMIT $4;

-- subtask_input
-- What a subtask reads.
SELECT object, object_etag, object_bytes, format FROM minion_subtask WHERE task_id = $1 AND subtask_id = $2;

-- model_speeds
-- How fast single executors read input lately for this kind and model, by the clock on the wall: bytes a second of the
-- slow and of the fast among them. An executor works on two subtasks at a time, so the seconds of its parts overlap.
SELECT coalesce(sum(parts), 0)::int AS parts, percentile_cont(0.2) WITHIN GROUP (ORDER BY speed)::float8 AS slow,
    percentile_cont(0.8) WITHIN GROUP (ORDER BY speed)::float8 AS fast
FROM (
    SELECT count(*) AS parts,
        sum(part.input_bytes) / greatest(extract(epoch FROM max(part.at) - min(part.began_at)), 0.001) AS speed
    FROM (
        SELECT task_id FROM minion_task WHERE kind = $1 AND model = $2 ORDER BY task_id DESC LIMIT 20
    ) AS task
    CROSS JOIN LATERAL (
        SELECT executor_id, input_bytes, at, at - seconds * interval '1 second' AS began_at
        FROM minion_subtask_ledger
        WHERE task_id = task.task_id AND entry = 'part' AND rows > 0 AND seconds > 0 AND kept_rows = 0
        ORDER BY at DESC LIMIT 50
    ) AS part
    GROUP BY task.task_id, part.executor_id
) AS lately;

-- models_used
-- Models of the latest tasks, for choosing one: what executors ran is what they hold. A task is pinned by its first part;
-- one without may name what nobody could ever fetch.
SELECT kind, model, max(task_id) AS task_id FROM (
    SELECT kind, model, task_id, pin FROM minion_task
    WHERE $1::text[] IS NULL OR team = ANY ($1) ORDER BY task_id DESC LIMIT 500
) AS latest
WHERE pin IS NOT NULL
GROUP BY kind, model ORDER BY task_id DESC LIMIT 30;

-- models_of_teams
-- Models of the latest tasks of these teams, each once.
SELECT DISTINCT model FROM (
    SELECT model FROM minion_task WHERE team = ANY ($1::text[]) ORDER BY task_id DESC LIMIT 1000
) AS latest;

-- models_held
-- Models that executors say they have; those that are offline are not asked.
SELECT DISTINCT model ->> 'model' AS model FROM minion_executor
CROSS JOIN LATERAL jsonb_path_query(device, '$.models[*] ? (@.model.type() == "string")') AS model
WHERE state <> 'offline' ORDER BY model LIMIT 50;
