-- what_changed
-- For all open pages of a server. $1, $2, $4: how far an earlier look saw in the ledger and in the acquirements, and when
-- it was taken, from which on executors' changes are told: one that is written now may bear a time of a moment before.
-- $3 tasks whose own rows are looked at, $5 whether the silent are looked for: one and all are named, as no row changes
-- when one falls silent. What is null finds nothing.
WITH entries AS MATERIALIZED (
    SELECT task_id, executor_id FROM minion_subtask_ledger WHERE ledger_id > $1
    UNION ALL
    SELECT task_id, executor_id FROM minion_subtask_acquirement WHERE acquirement_id > $2
), watched AS MATERIALIZED (
    SELECT task_id, hashtext(concat_ws('|', state, paused, subtask_count, manifest_key, split_position)) AS print
    FROM minion_task WHERE task_id = ANY ($3::bigint[])
)
SELECT
    (SELECT coalesce(max(ledger_id), 0) FROM minion_subtask_ledger) AS ledger_id,
    (SELECT coalesce(max(acquirement_id), 0) FROM minion_subtask_acquirement) AS acquirement_id,
    now() AS at,
    ARRAY(SELECT DISTINCT task_id FROM entries) AS tasks,
    ARRAY(
        SELECT executor_id FROM entries WHERE executor_id IS NOT NULL
        UNION SELECT executor_id FROM minion_executor WHERE state_since > $4::timestamptz - interval '1 second'
    ) AS executors,
    CASE WHEN $5::boolean THEN ARRAY(SELECT executor_id FROM minion_executor_standing WHERE is_silent) END AS silent,
    (
        SELECT coalesce(sum(hashint8(task_id * 64 + subtask_count % 32 * 2 + paused::int) # hashtext(state)), 0)::bigint
        FROM minion_task WHERE state IN ('submitted', 'splitting', 'running', 'finishing')
    ) AS open_tasks,
    ARRAY(SELECT task_id FROM watched ORDER BY task_id) AS watched,
    ARRAY(SELECT print FROM watched ORDER BY task_id) AS prints;
