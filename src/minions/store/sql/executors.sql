-- register_executor
-- A run of an executor begins; the same instance keeps its id and gets a new session.
INSERT INTO minion_executor (instance, session, name, owner, version, token_id, device, kinds, engines, memory_mb,
    preferences, state, state_reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'starting', '')
ON CONFLICT (instance) DO UPDATE SET session = excluded.session, name = excluded.name, owner = excluded.owner,
    version = excluded.version, token_id = excluded.token_id, device = excluded.device, kinds = excluded.kinds,
    engines = excluded.engines, memory_mb = excluded.memory_mb, preferences = excluded.preferences, teams = NULL,
    leaves = '{}',    state = 'starting', state_reason = '', state_since = now(), last_seen_at = now()
WHERE minion_executor.token_id IS NOT DISTINCT FROM excluded.token_id
RETURNING executor_id;

-- read_session
-- Who an executor is, for the calls of its running session.
SELECT executor_id, session, name, token_id, kinds, engines, memory_mb, teams, preferences FROM minion_executor
WHERE executor_id = $1;

-- note_signs_of_life
-- One statement for all executors that were heard of since the last one; locked in order, since another server may
-- have heard of the same ones. Who was only taken for offline ($2, the reason) is back.
WITH heard AS MATERIALIZED (
    SELECT executor_id FROM minion_executor WHERE executor_id = ANY ($1::bigint[]) ORDER BY executor_id
    FOR NO KEY UPDATE
)
UPDATE minion_executor AS executor SET last_seen_at = now(),
    state = CASE WHEN state = 'offline' AND state_reason = $2 THEN 'idle' ELSE state END,
    state_reason = CASE WHEN state = 'offline' AND state_reason = $2 THEN 'heard of again' ELSE state_reason END,
    state_since = CASE WHEN state = 'offline' AND state_reason = $2 THEN now() ELSE state_since END
FROM heard WHERE executor.executor_id = heard.executor_id;

-- heartbeat
-- How the executor is; its state keeps the moment since when, as does a pause whose reason is told more exactly.
-- $7 kinds (null: what it takes is as before), $8 memory, $9 teams. Returns nothing when the session was replaced.
WITH beaten AS (
    UPDATE minion_executor SET last_seen_at = now(), state = $3, state_reason = $4,
        state_since = CASE WHEN state = $3 AND (state_reason = $4 OR $3 = 'paused') THEN state_since ELSE now() END,
        preferences = coalesce($5, preferences), kinds = coalesce($7::text[], kinds),
        memory_mb = CASE WHEN $7::text[] IS NULL THEN memory_mb ELSE $8::int END,
        teams = CASE WHEN $7::text[] IS NULL THEN teams ELSE $9::text[] END,
        leaves = coalesce($10, leaves), device = coalesce($11, device)
    WHERE executor_id = $1 AND session = $2
    RETURNING executor_id
), sampled AS (
    INSERT INTO minion_heartbeat (executor_id, state, sample) SELECT executor_id, $3, $6 FROM beaten
)
SELECT executor_id FROM beaten;

-- say_goodbye
UPDATE minion_executor SET state = 'offline', state_reason = $3, state_since = now(), last_seen_at = now()
WHERE executor_id = $1 AND session = $2
RETURNING executor_id;

-- mark_offline
UPDATE minion_executor SET state = 'offline', state_reason = $2, state_since = now()
WHERE executor_id = ANY ($1::bigint[]) AND state <> 'offline';

-- mark_silent
-- Executors without work that fell silent: they lose nothing, but nobody should count on them.
UPDATE minion_executor SET state = 'offline', state_reason = $2, state_since = now()
WHERE state <> 'offline' AND last_seen_at < now() - make_interval(secs => $1)
    AND NOT EXISTS (
        SELECT FROM minion_subtask_acquirement AS held WHERE held.executor_id = minion_executor.executor_id
    )
    AND NOT EXISTS (
        SELECT FROM minion_subtask_acquirement AS held WHERE held.second_executor_id = minion_executor.executor_id
    )
RETURNING executor_id;

-- list_executors
-- $1 after this id, $2 one id only (null: all), $4 a place in the ledger before the last minute.
SELECT executor.*, extract(epoch FROM now() - executor.last_seen_at)::float8 AS silent_seconds,
    held.holds, held.current, 
    coalesce(lately.rows_last_minute, 0) AS rows_last_minute, coalesce(lately.parts, 0) AS parts
FROM minion_executor_standing AS executor
CROSS JOIN LATERAL (
    SELECT count(*)::int AS holds,
        coalesce(array_agg(DISTINCT team || '/' || project || '/' || task_name), '{}') AS current
    FROM (
        SELECT team, project, task_name FROM minion_subtask_acquirement AS owned
        WHERE owned.executor_id = executor.executor_id
        UNION ALL
        SELECT team, project, task_name FROM minion_subtask_acquirement AS second
        WHERE second.second_executor_id = executor.executor_id
    ) AS acquirement
) AS held
LEFT JOIN (
    SELECT executor_id, sum(rows - kept_rows)::bigint AS rows_last_minute, count(*)::int AS parts
    FROM minion_subtask_ledger WHERE entry = 'part' AND ledger_id > $4 AND at > now() - interval '1 minute' GROUP BY executor_id
) AS lately USING (executor_id)
WHERE executor.executor_id > $1 AND ($2::bigint IS NULL OR executor.executor_id = $2)
ORDER BY executor.executor_id LIMIT $3;

-- executor_names
SELECT executor_id, name FROM minion_executor WHERE executor_id = ANY ($1::bigint[]);

-- candidates
-- The executors that are not offline ($1: this one, whatever its state), as matching sees them.
SELECT executor_id, name, state, state_reason, kinds, engines, memory_mb, teams,
    nullif(leaves, '{}') AS leaves -- most leave nothing alone, and reading what is nothing takes a while for thousands
FROM minion_executor_standing
WHERE CASE WHEN $1::bigint IS NULL THEN state <> 'offline' ELSE executor_id = $1 END
ORDER BY executor_id;

-- cached_weights
-- Bytes of a model as executors say that they have it; what one says of its machine is free in form.
SELECT max((model ->> 'size_bytes')::numeric)::bigint AS weight_bytes
FROM minion_executor CROSS JOIN LATERAL jsonb_path_query(
    device, '$.models[*] ? (@.model == $wanted && @.size_bytes.type() == "number")', jsonb_build_object('wanted', $1::text)
) AS model;

-- others_able
-- Whether an executor other than $1 is there that could do a subtask of this kind ($2), engine ($3), memory ($4), team ($5).
SELECT EXISTS (
    SELECT FROM minion_executor_standing
    WHERE executor_id <> $1 AND state IN ('starting', 'idle', 'busy') AND $2 = ANY (kinds) AND $3 = ANY (engines)
        AND memory_mb >= $4 AND (teams IS NULL OR $5 = ANY (teams))
) AS able;

-- able_executors
-- How many executors are not offline and could do a subtask of this kind ($1), engine ($2), memory ($3), team ($4).
SELECT count(*)::int AS able FROM minion_executor_standing
WHERE state <> 'offline' AND $1 = ANY (kinds) AND $2 = ANY (engines) AND memory_mb >= $3
    AND (teams IS NULL OR $4 = ANY (teams));

-- prune_heartbeats
-- A bounded number, so that the first run after a long pause is no long transaction.
WITH old AS MATERIALIZED (
    SELECT ctid FROM minion_heartbeat WHERE at < now() - make_interval(secs => $1 * 86400) LIMIT 10000
), gone AS (
    DELETE FROM minion_heartbeat WHERE ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING 1
)
SELECT count(*)::int AS pruned FROM gone;

-- silent_holders
-- Executors that are offline with subtasks of these tasks ($1) that silence takes away, and with how many.
SELECT held.task_id, standing.name, standing.last_seen_at, count(*)::int AS holds
FROM minion_executor_standing AS standing
JOIN (
    SELECT task_id, executor_id FROM minion_subtask_acquirement WHERE task_id = ANY ($1::bigint[])
    UNION ALL
    SELECT task_id, second_executor_id FROM minion_subtask_acquirement
    WHERE task_id = ANY ($1::bigint[]) AND second_executor_id IS NOT NULL
) AS held USING (executor_id)
WHERE standing.state = 'offline'
    AND held.task_id NOT IN (SELECT task_id FROM minion_task WHERE keeps_owner AND ended_at IS NULL)
GROUP BY held.task_id, standing.executor_id, standing.name, standing.last_seen_at
ORDER BY standing.last_seen_at, standing.executor_id;
