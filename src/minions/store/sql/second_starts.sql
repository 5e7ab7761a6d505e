-- start_second
-- Start the job that has run longest a second time, on executor $1. $2 lanes, $3 tasks to leave out, $4 teams (null: all).
-- Only of tasks that allow it, are not paused and of which nothing waits. Never what this executor runs or tried in vain,
-- nor what was started a second time since it was handed out. What has not run for as long as half of the task's jobs took
-- is about to end anyway; as long as none is done, nobody knows how long that is. The newest 1,000 parts tell it, so that a
-- long task does not cost more.
-- The row is locked (SKIP LOCKED) and looked at again, so that of two that ask at once one starts it.
WITH task AS MATERIALIZED (
    SELECT task_id, pin, retry_codes FROM minion_task
    WHERE second_start AND ended_at IS NULL AND state = 'running' AND NOT paused
        AND lane = ANY ($2::text[]) AND task_id <> ALL ($3::bigint[]) AND ($4::text[] IS NULL OR team = ANY ($4))
        AND NOT EXISTS (SELECT FROM minion_subtask_queue AS queue WHERE queue.task_id = minion_task.task_id)
), usual AS MATERIALIZED (
    SELECT running.task_id, lately.seconds
    FROM (
        SELECT DISTINCT task_id FROM minion_subtask_acquirement AS held
        WHERE task_id = ANY (ARRAY(SELECT task_id FROM task)) AND second_since IS NULL AND executor_id <> $1
    ) AS running
    CROSS JOIN LATERAL (
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY part.seconds) AS seconds FROM (
            SELECT seconds FROM minion_subtask_ledger
            WHERE task_id = running.task_id AND entry = 'part' AND superseded_at IS NULL
            ORDER BY at DESC LIMIT 1000
        ) AS part
    ) AS lately
    WHERE lately.seconds IS NOT NULL
), chosen AS MATERIALIZED (
    SELECT held.acquirement_id FROM minion_subtask_acquirement AS held JOIN usual USING (task_id)
    WHERE held.executor_id <> $1 AND held.second_since IS NULL AND (held.avoid IS NULL OR $1 <> ALL (held.avoid))
        AND held.acquired_at <= now() - make_interval(secs => usual.seconds)
    ORDER BY held.acquired_at, held.acquirement_id LIMIT 1
    FOR UPDATE OF held SKIP LOCKED
), started AS (
    UPDATE minion_subtask_acquirement AS held
    SET second_id = nextval('minion_subtask_acquirement_acquirement_id_seq'), second_executor_id = $1,
        second_since = now()
    FROM chosen WHERE held.acquirement_id = chosen.acquirement_id
    RETURNING held.*
), noted AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason)
    SELECT task_id, subtask_id, 'second_start', second_executor_id, second_id, attempt, losses, 'runs_longest' FROM started
)
SELECT started.second_id AS acquirement_id, started.second_executor_id AS executor_id, started.task_id,
    started.subtask_id, started.attempt, started.cursor, started.team, started.project, started.task_name,
    subtask.object, subtask.object_etag, subtask.object_bytes, subtask.range_start, subtask.range_end, subtask.format,
    task.pin, started.retry, task.retry_codes
FROM started JOIN task USING (task_id) JOIN minion_subtask AS subtask USING (task_id, subtask_id);

-- take_over
-- A second start becomes the owner: $1 its fence, $2 its executor. Whoever was the owner is too late from now on.
-- The old row is gone before the new one enters the indexes, since the one is made of the other.
WITH ended AS (
    DELETE FROM minion_subtask_acquirement WHERE second_id = $1 AND second_executor_id = $2 RETURNING *
), noted AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason, waited_seconds)
    SELECT task_id, subtask_id, 'released', executor_id, acquirement_id, attempt, losses, 'overtaken', waited_seconds
    FROM ended
)
INSERT INTO minion_subtask_acquirement
    (acquirement_id, team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, acquired_at,
    avoid, retry, second_since)
OVERRIDING SYSTEM VALUE
SELECT second_id, team, project, task_name, subtask_id, task_id, second_executor_id, attempt, losses, cursor,
    second_since, avoid, retry, second_since
FROM ended
RETURNING acquirement_id;
