-- insert_task
-- Store a task as submitted. Returns nothing when its name or its Idempotency-Key is taken.
INSERT INTO minion_task (team, project, task_name, kind, engine, model, lane, priority, specification, idempotency_key,
    request_sha256, created_by, input_bytes, keeps_owner, second_start)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT DO NOTHING
RETURNING task_id;

-- find_by_idempotency_key
SELECT task_id, request_sha256 FROM minion_task WHERE idempotency_key = $1;

-- find_by_name
SELECT task_id FROM minion_task WHERE team = $1 AND project = $2 AND task_name = $3;

-- read_task
SELECT * FROM minion_task WHERE task_id = $1;

-- lock_task
-- The task's row, locked: whoever changes where its subtasks stand from outside holds this first.
SELECT task_id, state, paused, subtask_count FROM minion_task WHERE task_id = $1 FOR UPDATE;

-- list_tasks
-- $1 team, $2 project, $3 states (each null: any), $4 teams that the token reaches (null: all), $5 before this id,
-- $7 whether paused (null: any).
SELECT * FROM minion_task
WHERE ($1::text IS NULL OR team = $1) AND ($2::text IS NULL OR project = $2)
    AND ($3::text[] IS NULL OR state = ANY ($3)) AND ($4::text[] IS NULL OR team = ANY ($4))
    AND ($5::bigint IS NULL OR task_id < $5) AND ($7::boolean IS NULL OR paused = $7)
ORDER BY task_id DESC LIMIT $6;

-- change_state
-- One step of the state table; $3 are the states from which it may be taken.
UPDATE minion_task SET state = $2, state_reason = $4,
    started_at = coalesce(started_at, CASE WHEN $2 = 'splitting' THEN now() END),
    ended_at = CASE WHEN $2 IN ('completed', 'failed', 'cancelled') THEN now() END
WHERE task_id = $1 AND state = ANY ($3::text[])
RETURNING task_id;

-- end_task
-- The task's end, with its totals and its manifest. $7: only if it was retried so often (null: however often), because
-- a manifest takes a while to write.
UPDATE minion_task SET state = $2, state_reason = $3, totals = $4, manifest_key = $5, ended_at = now()
WHERE task_id = $1 AND state = ANY ($6::text[]) AND ($7::int IS NULL OR retries = $7)
RETURNING task_id;

-- set_paused
UPDATE minion_task SET paused = $2 WHERE task_id = $1 RETURNING task_id;

-- set_ready
-- What waits becomes available, or not. A range that waits for its time stays as it is.
UPDATE minion_subtask_queue SET ready = $2, waiting_since = now()
WHERE task_id = $1 AND not_before IS NULL AND ready <> $2;

-- cancel_queued
-- Every range that waits becomes one cancelled entry of the ledger. What had been done before it was retried is done
-- again, with the rows that it has.
WITH gone AS (
    DELETE FROM minion_subtask_queue WHERE task_id = $1 RETURNING *
)
INSERT INTO minion_subtask_ledger (task_id, subtask_id, subtasks, entry, attempt, losses, reason)
SELECT task_id, next_subtask, end_subtask - next_subtask, 'cancelled', attempt, losses, $2 FROM gone
WHERE retry IS DISTINCT FROM 'rows'
UNION ALL
SELECT task_id, subtask_id, 1, 'done', attempt, losses, $2
FROM gone CROSS JOIN LATERAL generate_series(next_subtask, end_subtask - 1) AS subtask_id
WHERE retry = 'rows';

-- cancel_acquired
-- Those under way too: their executors' calls come too late from now on. Commands may still run there, in both places when
-- they were started twice, until the executors say that they do not: see stopping.sql. Those that may run twice are noted
-- as well, since the same job may be handed in again as one that must not.
WITH held AS MATERIALIZED (
    SELECT acquirement_id FROM minion_subtask_acquirement WHERE task_id = $1 ORDER BY acquirement_id FOR UPDATE
), gone AS (
    DELETE FROM minion_subtask_acquirement AS acquirement USING held
    WHERE acquirement.acquirement_id = held.acquirement_id RETURNING acquirement.*
), stopping AS (
    INSERT INTO minion_subtask_stopping (acquirement_id, executor_id, task_id, subtask_id, acquired_at)
    SELECT running.acquirement_id, running.executor_id, task_id, subtask_id, running.since FROM gone
    CROSS JOIN LATERAL (
        VALUES (acquirement_id, executor_id, acquired_at), (second_id, second_executor_id, second_since)
    ) AS running (acquirement_id, executor_id, since)
    WHERE running.acquirement_id IS NOT NULL AND (SELECT kind = 'command' FROM minion_task WHERE task_id = $1)
)
INSERT INTO minion_subtask_ledger
    (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason, waited_seconds)
SELECT task_id, subtask_id, CASE retry WHEN 'rows' THEN 'done' ELSE 'cancelled' END, executor_id, acquirement_id, attempt, losses, $2, waited_seconds FROM gone;

-- tasks_to_split
-- Oldest first; a task whose splitter died is still in state splitting and is taken up where it stopped.
SELECT task_id FROM minion_task WHERE state IN ('submitted', 'splitting') ORDER BY task_id LIMIT 100;

-- tasks_to_finish
-- Tasks whose subtasks all have an end.
SELECT task_id FROM minion_task AS task
WHERE state IN ('running', 'finishing')
    AND NOT EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = task.task_id)
    AND NOT EXISTS (SELECT FROM minion_subtask_acquirement AS held WHERE held.task_id = task.task_id)
ORDER BY task_id LIMIT 100;

-- has_open_subtasks
SELECT EXISTS (SELECT FROM minion_subtask_queue WHERE task_id = $1)
    OR EXISTS (SELECT FROM minion_subtask_acquirement WHERE task_id = $1) AS open;

-- tasks_over_their_limit
-- Running tasks of which more rows failed than they allow; a share of fewer than 100 rows says nothing yet.
-- One that is retried begins with its failed rows, so it is judged at its end only.
-- The tasks with a limit are few and found first: the planner would otherwise read the whole ledger.
WITH limited AS MATERIALIZED (
    SELECT task_id, (specification -> 'parameters' ->> 'max_failed_share')::float8 AS share FROM minion_task
    WHERE state IN ('splitting', 'running') AND retries = 0
        AND (specification -> 'parameters' ->> 'max_failed_share') IS NOT NULL
)
SELECT limited.task_id, parts.rows, parts.failed_rows
FROM limited
CROSS JOIN LATERAL (
    SELECT sum(rows)::bigint AS rows, sum(failed_rows)::bigint AS failed_rows FROM minion_subtask_ledger AS part
    WHERE part.task_id = limited.task_id AND part.entry = 'part' AND part.superseded_at IS NULL
) AS parts
WHERE parts.rows >= 100 AND parts.failed_rows > parts.rows * limited.share;

-- open_lanes
-- Lanes of tasks that are not ended, with whether one of them may be started a second time.
SELECT lane, bool_or(second_start) AS second_start FROM minion_task
WHERE state IN ('submitted', 'splitting', 'running', 'finishing') AND NOT paused
GROUP BY lane;

-- waiting_lanes
-- Lanes in which something waits right now, with how many tasks.
SELECT lane, count(DISTINCT task_id)::int AS tasks FROM minion_subtask_queue WHERE ready GROUP BY lane;

-- preferred_tasks
-- Open tasks that match a preference ($1 teams, $2 projects, $3 names; null: any), in the order of the preferences.
SELECT task.task_id, task.lane
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (team, project, task_name, place)
JOIN minion_task AS task
    ON (wanted.team IS NULL OR task.team = wanted.team) AND (wanted.project IS NULL OR task.project = wanted.project)
    AND (wanted.task_name IS NULL OR task.task_name = wanted.task_name)
WHERE task.state IN ('splitting', 'running') AND NOT task.paused
    AND EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = task.task_id AND queue.ready)
GROUP BY task.task_id, task.lane, task.priority
ORDER BY min(wanted.place), task.priority, task.task_id LIMIT 64;

-- tasks_of_teams
-- Open tasks of the teams in $1 that have something to hand out in the lanes $2, without those in $3, oldest first: for
-- executors that are not lent to all teams.
SELECT task_id FROM minion_task AS task
WHERE state IN ('splitting', 'running') AND NOT paused AND team = ANY ($1::text[]) AND lane = ANY ($2::text[])
    AND task_id <> ALL ($3::bigint[])
    AND EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = task.task_id AND queue.ready)
ORDER BY priority, task_id LIMIT 64;

-- task_faults
-- Faults of a task since it was handed in or retried last, by code, each with the message that was told most often.
-- Asked of tasks without a part, so that its ledger is short.
SELECT reason AS code, mode() WITHIN GROUP (ORDER BY message) AS message, count(*)::int AS faults,
    count(DISTINCT executor_id)::int AS executors
FROM minion_subtask_ledger AS ledger
WHERE task_id = $1 AND entry = 'fault' AND at > coalesce(
    (SELECT max(at) FROM minion_subtask_ledger AS earlier WHERE earlier.task_id = $1 AND earlier.entry = 'retried'),
    '-infinity')
GROUP BY reason ORDER BY faults DESC, reason;

-- set_aside_causes
-- Why subtasks of a task were set aside: by code and message, the most frequent first.
SELECT reason AS code, message, count(*)::int AS subtasks FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'failed' AND superseded_at IS NULL
GROUP BY reason, message ORDER BY subtasks DESC, reason, message LIMIT $2;

-- set_aside_codes
-- The same by code only: what commands said before they failed differs from job to job.
SELECT reason AS code, count(*)::int AS subtasks FROM minion_subtask_ledger
WHERE task_id = $1 AND entry = 'failed' AND superseded_at IS NULL
GROUP BY reason ORDER BY subtasks DESC, reason;

-- pin_task
-- The first part fixes what all executors of the task must agree on.
UPDATE minion_task SET pin = $2, weight_bytes = $3 WHERE task_id = $1 AND pin IS NULL RETURNING task_id;

-- read_pin
-- In a statement of its own: one that lost the race to pin does not see, in its own snapshot, what the winner wrote.
SELECT pin FROM minion_task WHERE task_id = $1;

-- measured_weights
SELECT weight_bytes FROM minion_task WHERE model = $1 AND weight_bytes IS NOT NULL ORDER BY task_id DESC LIMIT 1;

-- waiting_tasks
-- Tasks that have something to hand out, in the order in which they are served; $1 teams (null: all).
SELECT task_id, team, project, task_name, lane, pin FROM minion_task AS task
WHERE state IN ('splitting', 'running') AND NOT paused AND ($1::text[] IS NULL OR team = ANY ($1))
    AND EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = task.task_id AND queue.ready)
ORDER BY priority, task_id LIMIT 500;

-- recent_makers
-- Who made the last parts of each task in $1.
SELECT DISTINCT wanted.task_id, part.executor_id
FROM unnest($1::bigint[]) AS wanted (task_id)
CROSS JOIN LATERAL (
    SELECT executor_id FROM minion_subtask_ledger
    WHERE task_id = wanted.task_id AND entry = 'part' ORDER BY at DESC, ledger_id DESC LIMIT 200
) AS part;

-- recent_speed
-- Bytes of input a second that one executor has done lately of this kind and model; a part that took over rows says
-- nothing of it.
SELECT (sum(input_bytes) / nullif(sum(seconds), 0))::float8 AS bytes_per_second
FROM (
    SELECT part.input_bytes, part.seconds
    FROM minion_task AS task
    CROSS JOIN LATERAL (
        SELECT input_bytes, seconds FROM minion_subtask_ledger
        WHERE task_id = task.task_id AND entry = 'part' AND rows > 0 AND seconds > 0 AND kept_rows = 0
        ORDER BY at DESC LIMIT 50
    ) AS part
    WHERE task.kind = $1 AND task.model = $2
    ORDER BY task.task_id DESC LIMIT 250
) AS lately;

-- subtask_counts
-- Where the subtasks of each task in $1 stand, in one snapshot.
SELECT task.task_id, task.subtask_count AS total,
    (SELECT coalesce(sum(end_subtask - next_subtask), 0)::int FROM minion_subtask_queue AS queue
        WHERE queue.task_id = task.task_id) AS queued,
    (SELECT count(*)::int FROM minion_subtask_acquirement AS held WHERE held.task_id = task.task_id) AS acquired,
    ended.done, ended.failed, ended.cancelled
FROM minion_task AS task
CROSS JOIN LATERAL (
    SELECT coalesce(sum(subtasks) FILTER (WHERE entry = 'done'), 0)::int AS done,
        coalesce(sum(subtasks) FILTER (WHERE entry = 'failed'), 0)::int AS failed,
        coalesce(sum(subtasks) FILTER (WHERE entry = 'cancelled'), 0)::int AS cancelled
    FROM minion_subtask_ledger AS ledger
    WHERE ledger.task_id = task.task_id AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
) AS ended
WHERE task.task_id = ANY ($1::bigint[]);

-- row_counts
-- What was committed for each task in $1.
SELECT task_id, sum(rows)::bigint AS rows, sum(failed_rows)::bigint AS failed_rows,
    sum(truncated_rows)::bigint AS truncated_rows, sum(input_tokens)::bigint AS input_tokens,
    sum(output_tokens)::bigint AS output_tokens, sum(seconds)::float8 AS seconds
FROM minion_subtask_ledger WHERE task_id = ANY ($1::bigint[]) AND entry = 'part' AND superseded_at IS NULL
GROUP BY task_id;

-- failure_counts
-- Failed rows by code, of each task in $1.
SELECT part.task_id, code, sum(count::bigint)::bigint AS rows
FROM minion_subtask_ledger AS part CROSS JOIN LATERAL jsonb_each_text(part.detail -> 'failures') AS failure (code, count)
WHERE part.task_id = ANY ($1::bigint[]) AND part.entry = 'part' AND part.superseded_at IS NULL AND part.failed_rows > 0
GROUP BY part.task_id, code ORDER BY rows DESC, code;

-- running_shares
-- How far the subtasks are that were begun and not ended, in subtasks, and how many executors hold some, of each task
-- in $1; a whole compressed file counts nothing until it is done. Those that were given back lie among all that waits:
-- they are looked for only in tasks that gave some back.
SELECT begun.task_id, count(DISTINCT begun.executor_id)::int AS executors,
    coalesce(sum((begun.cursor - subtask.range_start)::float8 / (subtask.range_end - subtask.range_start)), 0)::float8
    AS share
FROM (
    SELECT task_id, subtask_id, executor_id, cursor FROM minion_subtask_acquirement WHERE task_id = ANY ($1::bigint[])
    UNION ALL
    SELECT task_id, subtask_id, second_executor_id, NULL FROM minion_subtask_acquirement
    WHERE task_id = ANY ($1::bigint[]) AND second_executor_id IS NOT NULL
    UNION ALL
    SELECT wanted.task_id, queue.first_subtask, NULL, queue.cursor FROM unnest($1::bigint[]) AS wanted (task_id)
    CROSS JOIN LATERAL (
        SELECT FROM minion_subtask_ledger AS trouble
        WHERE trouble.task_id = wanted.task_id AND entry IN ('released', 'lost', 'fault', 'failed', 'cancelled') LIMIT 1
    ) AS troubled
    JOIN minion_subtask_queue AS queue ON queue.task_id = wanted.task_id AND queue.cursor IS NOT NULL
) AS begun
JOIN minion_subtask AS subtask USING (task_id, subtask_id)
GROUP BY begun.task_id;

-- recent_rates
-- Rows a second committed over the last minute, or since the start or the retry, of each task in $1.
SELECT part.task_id, (sum(part.rows - part.kept_rows)
    / greatest(1, least(60, extract(epoch FROM now() - min(coalesce(task.retried_at, task.started_at))))))::float8 AS rows_per_second
FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
WHERE part.task_id = ANY ($1::bigint[]) AND part.entry = 'part' AND part.at > now() - interval '1 minute'
GROUP BY part.task_id;
