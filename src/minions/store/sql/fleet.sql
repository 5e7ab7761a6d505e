-- browse_executors
-- A page of the executors that match, and in every row how many match in each state: $1 a part of the name, the owner or
-- the chip, $2 states, $3 state's place and $4 number after which the page begins (null: the first), $5 its length, $6 one
-- of them only (null: all), $7 a place in the ledger before the last minute.
-- Those that work come first; what is at most some thousand rows is counted while it is found.
WITH matching AS MATERIALIZED (
    SELECT executor_id, state, array_position(ARRAY['busy', 'idle', 'starting', 'paused', 'stopping', 'offline'], state) AS place
    FROM minion_executor_standing AS executor
    WHERE ($6::bigint IS NULL OR executor_id = $6) AND ($1::text IS NULL
        OR position(lower($1) IN lower(name || ' ' || owner || ' ' || coalesce(device ->> 'chip', ''))) > 0)
), counted AS (
    SELECT coalesce(jsonb_object_agg(state, number), '{}') AS counts
    FROM (SELECT state, count(*) AS number FROM matching GROUP BY state) AS each
), page AS MATERIALIZED (
    SELECT * FROM matching
    WHERE ($2::text[] IS NULL OR state = ANY ($2)) AND ($3::int IS NULL OR (place, executor_id) > ($3, $4))
    ORDER BY place, executor_id LIMIT $5
)
SELECT counted.counts, page.place, executor.*, extract(epoch FROM now() - executor.last_seen_at)::float8 AS silent_seconds,
    held.holds, held.current, coalesce(lately.rows, 0)::bigint AS rows_last_minute, coalesce(lately.parts, 0) AS parts
FROM counted LEFT JOIN page ON true LEFT JOIN minion_executor_standing AS executor ON executor.executor_id = page.executor_id
LEFT JOIN LATERAL (
    SELECT count(*)::int AS holds,
        coalesce(array_agg(DISTINCT team || '/' || project || '/' || task_name), '{}') AS current
    FROM (
        SELECT team, project, task_name FROM minion_subtask_acquirement AS owned
        WHERE owned.executor_id = page.executor_id
        UNION ALL
        SELECT team, project, task_name FROM minion_subtask_acquirement AS second
        WHERE second.second_executor_id = page.executor_id
    ) AS acquirement
) AS held ON true
LEFT JOIN (
    SELECT executor_id, sum(rows - kept_rows) AS rows, count(*)::int AS parts
    FROM minion_subtask_ledger WHERE entry = 'part' AND ledger_id > $7 AND at > now() - interval '1 minute' GROUP BY executor_id
) AS lately ON lately.executor_id = page.executor_id
ORDER BY page.place, page.executor_id;

-- held_by_executor
-- What an executor works on, oldest first.
SELECT task_id, team, project, task_name, subtask_id, attempt, acquired_at,
    CASE WHEN subtask.range_end > subtask.range_start
        THEN (held.cursor - subtask.range_start)::float8 / (subtask.range_end - subtask.range_start) END AS share
FROM (
    SELECT acquirement_id, task_id, team, project, task_name, subtask_id, attempt, acquired_at, cursor
    FROM minion_subtask_acquirement WHERE executor_id = $1
    UNION ALL
    SELECT second_id, task_id, team, project, task_name, subtask_id, attempt, second_since, cursor
    FROM minion_subtask_acquirement WHERE second_executor_id = $1
) AS held JOIN minion_subtask AS subtask USING (task_id, subtask_id)
ORDER BY held.acquirement_id LIMIT 100;

-- heartbeat_changes
-- An executor's heartbeats of the last day where its state changed, or where none had come for more than $2 seconds.
SELECT at, state, before_at FROM (
    SELECT at, state, lag(state) OVER earlier AS before, lag(at) OVER earlier AS before_at
    FROM minion_heartbeat WHERE executor_id = $1 AND at > now() - interval '1 day'
    WINDOW earlier AS (ORDER BY at)
) AS beat
WHERE before IS DISTINCT FROM state OR at - before_at > make_interval(secs => $2)
ORDER BY at DESC LIMIT 2000;

-- last_sample
SELECT at, sample FROM minion_heartbeat WHERE executor_id = $1 ORDER BY at DESC LIMIT 1;
