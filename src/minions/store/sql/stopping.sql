-- stopping_of_executor
-- Cancelled jobs that may still run on an executor, if this is its running session.
SELECT acquirement_id, acquired_at < now() - interval '1 minute' AS settled FROM minion_subtask_stopping
WHERE executor_id = $1 AND EXISTS (SELECT FROM minion_executor WHERE executor_id = $1 AND session = $2);

-- stopping_of_project
-- Cancelled jobs that may still run somewhere, of team $1 and project $2, with where, and where their lines lie.
SELECT stopping.acquirement_id, stopping.task_id, stopping.subtask_id, executor.name AS executor, subtask.object,
    subtask.range_start, subtask.range_end
FROM minion_subtask_stopping AS stopping JOIN minion_task AS task USING (task_id)
JOIN minion_subtask AS subtask USING (task_id, subtask_id)
JOIN minion_executor AS executor USING (executor_id)
WHERE task.team = $1 AND task.project = $2
ORDER BY stopping.acquirement_id;

-- is_stopping
-- Whether one of these ($2; null: any) may still run on executor $1. Nearly always nothing does.
SELECT EXISTS (
    SELECT FROM minion_subtask_stopping WHERE executor_id = $1 AND ($2::bigint[] IS NULL OR acquirement_id = ANY ($2))
) AS is_stopping;

-- lock_stopped
-- One after the other: two that each end one of the acquirements for which a subtask waits would both see the other's.
SELECT pg_advisory_xact_lock(1937010544, 0);

-- note_stopped
-- These ($2; null: all) do not run any more on executor $1. Locked in the order of hold_back, so that the two never wait
-- for each other in a ring.
WITH those AS MATERIALIZED (
    SELECT acquirement_id FROM minion_subtask_stopping
    WHERE executor_id = $1 AND ($2::bigint[] IS NULL OR acquirement_id = ANY ($2))
    ORDER BY acquirement_id
    FOR UPDATE
)
DELETE FROM minion_subtask_stopping AS stopping USING those WHERE stopping.acquirement_id = those.acquirement_id
RETURNING stopping.acquirement_id;

-- let_wait_no_longer
-- What waited for one of $1 and for nothing else is due: promote_due makes it ready, unless its task is paused.
UPDATE minion_subtask_queue SET waits_for = NULL, not_before = now(), waiting_since = now()
WHERE waits_for IS NOT NULL AND waits_for && $1::bigint[]
    AND NOT EXISTS (SELECT FROM minion_subtask_stopping AS stopping WHERE stopping.acquirement_id = ANY (waits_for))
RETURNING range_id;

-- hold_back
-- Subtasks of task $1, which the caller has locked, wait until jobs are known to run no more: $2 subtasks and $3 the
-- acquirement for which each waits (a subtask may be there more than once). They are cut out of their ranges.
-- What is waited for is locked: either it is found to be gone, or whoever ends it finds what waits for it.
WITH still AS MATERIALIZED (
    SELECT given.subtask_id, stopping.acquirement_id
    FROM unnest($2::int[], $3::bigint[]) AS given (subtask_id, acquirement_id)
    JOIN minion_subtask_stopping AS stopping USING (acquirement_id)
    ORDER BY stopping.acquirement_id
    FOR SHARE OF stopping
), held AS MATERIALIZED (
    SELECT subtask_id, array_agg(acquirement_id) AS waits_for FROM still GROUP BY subtask_id
), gone AS (
    DELETE FROM minion_subtask_queue AS queue
    WHERE task_id = $1 AND EXISTS (
        SELECT FROM held WHERE subtask_id >= queue.next_subtask AND subtask_id < queue.end_subtask
    )
    RETURNING *
), cut AS (
    SELECT gone.*, held.subtask_id, held.waits_for AS waits,
        lag(held.subtask_id + 1, 1, gone.next_subtask) OVER in_range AS gap,
        lead(held.subtask_id) OVER in_range IS NULL AS is_last
    FROM gone JOIN held ON held.subtask_id >= gone.next_subtask AND held.subtask_id < gone.end_subtask
    WINDOW in_range AS (PARTITION BY gone.range_id ORDER BY held.subtask_id)
), piece AS (
    SELECT cut.*, gap AS first, subtask_id AS past, NULL::bigint[] AS until FROM cut WHERE gap < subtask_id
    UNION ALL
    SELECT cut.*, subtask_id, subtask_id + 1, waits FROM cut
    UNION ALL
    SELECT cut.*, subtask_id + 1, end_subtask, NULL FROM cut WHERE is_last AND subtask_id + 1 < end_subtask
), stored AS (
    INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, attempt, losses,
        cursor, retry, ready, not_before, waiting_since, avoid, avoid_until, waits_for)
    SELECT lane, priority, task_id, first, first, past, attempt, losses, cursor, retry, ready AND until IS NULL,
        CASE WHEN until IS NULL THEN not_before ELSE 'infinity' END, waiting_since, avoid, avoid_until, until
    FROM piece ORDER BY first
)
SELECT subtask_id FROM held;

-- held_back
-- What waits for cancelled jobs, of each task in $1: (task, subtask, executor on which it may run, when that was heard of).
SELECT queue.task_id, queue.next_subtask AS subtask_id, executor.name, executor.last_seen_at
FROM minion_subtask_queue AS queue
CROSS JOIN LATERAL (
    SELECT executor_id FROM minion_subtask_stopping WHERE acquirement_id = ANY (queue.waits_for)
    ORDER BY acquirement_id DESC LIMIT 1
) AS stopping
JOIN minion_executor AS executor USING (executor_id)
WHERE queue.task_id = ANY ($1::bigint[]) AND queue.waits_for IS NOT NULL
ORDER BY queue.task_id, queue.next_subtask;
