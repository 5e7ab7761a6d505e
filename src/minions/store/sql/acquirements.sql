-- acquire_from_lanes
-- Hand out the oldest waiting subtasks of the lanes in $2, one to each executor listed in $1.
-- $1 executors (one entry for each subtask wanted), $2 lanes that they can serve, $3 tasks to leave out.
-- Each lane is peeked at its head before anything is locked, so the cost does not depend on what stands in front
-- that these executors cannot run. Candidates are locked (SKIP LOCKED): a racer that chose without a lock could
-- re-insert a subtask that was finished in between; the unique constraint is the last guard, not the only one.
-- What an executor tried in vain goes to others first (avoid); a null check for nearly every range.
-- LIMITs are literals, or nested ones: a parameter there misleads the planner into a hash join of everything.
-- Subtasks and tasks are looked up one by one (LATERAL … LIMIT 1): joined, the planner, which cannot know that few rows are cut,
-- reads all of minion_subtask into a hash as long as the table is small enough to tempt it (28 ms instead of 0.5 at 40,000).
WITH lane AS MATERIALIZED (
    SELECT wanted.lane, head.priority, head.task_id
    FROM unnest($2::text[]) AS wanted (lane)
    CROSS JOIN LATERAL (
        SELECT priority, task_id FROM minion_subtask_queue
        WHERE ready AND lane = wanted.lane AND task_id <> ALL ($3::bigint[])
            AND (avoid IS NULL OR avoid_until <= now() OR NOT avoid && $1::bigint[])
        ORDER BY priority, task_id, first_subtask LIMIT 1
    ) AS head
    ORDER BY head.priority, head.task_id
    LIMIT 64
), slot AS MATERIALIZED (
    SELECT waiting.* FROM lane
    CROSS JOIN LATERAL (
        SELECT range_id, priority, task_id, first_subtask, next_subtask, end_subtask, attempt, losses, cursor,
            retry, waiting_since, CASE WHEN avoid_until > now() THEN avoid END AS avoid
        FROM minion_subtask_queue
        WHERE ready AND lane = lane.lane AND task_id <> ALL ($3::bigint[])
            AND (avoid IS NULL OR avoid_until <= now() OR NOT avoid && $1::bigint[])
        ORDER BY priority, task_id, first_subtask LIMIT 16
        FOR UPDATE SKIP LOCKED
    ) AS waiting
    LIMIT least(16, cardinality($1::bigint[]))
), cut AS (
    SELECT *, least(end_subtask - next_subtask, cardinality($1::bigint[]) - before)::int AS take
    FROM (
        SELECT slot.*, coalesce(sum(end_subtask - next_subtask) OVER (
            ORDER BY priority, task_id, first_subtask, range_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::int AS before
        FROM slot
    ) AS placed
    WHERE before < cardinality($1::bigint[])
), emptied AS (
    DELETE FROM minion_subtask_queue AS queue USING cut
    WHERE queue.range_id = cut.range_id AND cut.next_subtask + cut.take >= cut.end_subtask
), moved AS (
    UPDATE minion_subtask_queue AS queue SET next_subtask = cut.next_subtask + cut.take FROM cut
    WHERE queue.range_id = cut.range_id AND cut.next_subtask + cut.take < cut.end_subtask
), acquired AS (
    INSERT INTO minion_subtask_acquirement
        (team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, retry, avoid,
        waited_seconds)
    SELECT task.team, task.project, task.task_name, cut.next_subtask + step, cut.task_id,
        ($1::bigint[])[cut.before + step + 1], cut.attempt, cut.losses, coalesce(cut.cursor, subtask.range_start),
        cut.retry, cut.avoid, greatest(0, extract(epoch FROM now() - cut.waiting_since))
    FROM cut
    CROSS JOIN LATERAL (SELECT team, project, task_name FROM minion_task WHERE task_id = cut.task_id LIMIT 1) AS task
    CROSS JOIN LATERAL generate_series(0, cut.take - 1) AS step
    CROSS JOIN LATERAL (
        SELECT range_start FROM minion_subtask WHERE task_id = cut.task_id AND subtask_id = cut.next_subtask + step LIMIT 1
    ) AS subtask
    ON CONFLICT (team, project, task_name, subtask_id) DO NOTHING
    RETURNING *
)
SELECT acquired.acquirement_id, acquired.executor_id, acquired.task_id, acquired.subtask_id, acquired.attempt,
    acquired.cursor, acquired.team, acquired.project, acquired.task_name, subtask.object, subtask.object_etag,
    subtask.object_bytes, subtask.range_start, subtask.range_end, subtask.format, task.pin,
    acquired.retry, task.retry_codes
FROM acquired
CROSS JOIN LATERAL (
    SELECT object, object_etag, object_bytes, range_start, range_end, format FROM minion_subtask
    WHERE task_id = acquired.task_id AND subtask_id = acquired.subtask_id LIMIT 1
) AS subtask
CROSS JOIN LATERAL (SELECT pin, retry_codes FROM minion_task WHERE task_id = acquired.task_id LIMIT 1) AS task;

-- lock_head
-- Wait for the oldest range of these lanes when a racer has locked it; a lock that outlives a racer is no racer's.
-- Whoever waits here holds no other lock, so nobody waits for him in a ring.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', '500ms', true)
), head AS MATERIALIZED (
    SELECT head.range_id FROM patience CROSS JOIN unnest($1::text[]) AS wanted (lane)
    CROSS JOIN LATERAL (
        SELECT range_id, priority, task_id FROM minion_subtask_queue
        WHERE ready AND lane = wanted.lane AND task_id <> ALL ($2::bigint[])
            AND (avoid IS NULL OR avoid_until <= now() OR NOT avoid && $3::bigint[])
        ORDER BY priority, task_id, first_subtask LIMIT 1
    ) AS head
    ORDER BY head.priority, head.task_id
    LIMIT 1
)
SELECT range_id FROM minion_subtask_queue WHERE range_id = (SELECT range_id FROM head) FOR UPDATE;

-- acquire_from_tasks
-- The same over preferred tasks: $2 their ids, in the order of preference. What is left over goes to the lanes.
WITH slot AS MATERIALIZED (
    SELECT waiting.*, preferred.place
    FROM unnest($2::bigint[]) WITH ORDINALITY AS preferred (task_id, place)
    CROSS JOIN LATERAL (
        SELECT range_id, priority, task_id, first_subtask, next_subtask, end_subtask, attempt, losses, cursor,
            retry, waiting_since, CASE WHEN avoid_until > now() THEN avoid END AS avoid
        FROM minion_subtask_queue
        WHERE ready AND task_id = preferred.task_id
            AND (avoid IS NULL OR avoid_until <= now() OR NOT avoid && $1::bigint[])
        ORDER BY first_subtask LIMIT 16
        FOR UPDATE SKIP LOCKED
    ) AS waiting
    LIMIT least(16, cardinality($1::bigint[]))
), cut AS (
    SELECT *, least(end_subtask - next_subtask, cardinality($1::bigint[]) - before)::int AS take
    FROM (
        SELECT slot.*, coalesce(sum(end_subtask - next_subtask) OVER (
            ORDER BY place, first_subtask, range_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0)::int AS before
        FROM slot
    ) AS placed
    WHERE before < cardinality($1::bigint[])
), emptied AS (
    DELETE FROM minion_subtask_queue AS queue USING cut
    WHERE queue.range_id = cut.range_id AND cut.next_subtask + cut.take >= cut.end_subtask
), moved AS (
    UPDATE minion_subtask_queue AS queue SET next_subtask = cut.next_subtask + cut.take FROM cut
    WHERE queue.range_id = cut.range_id AND cut.next_subtask + cut.take < cut.end_subtask
), acquired AS (
    INSERT INTO minion_subtask_acquirement
        (team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, retry, avoid,
        waited_seconds)
    SELECT task.team, task.project, task.task_name, cut.next_subtask + step, cut.task_id,
        ($1::bigint[])[cut.before + step + 1], cut.attempt, cut.losses, coalesce(cut.cursor, subtask.range_start),
        cut.retry, cut.avoid, greatest(0, extract(epoch FROM now() - cut.waiting_since))
    FROM cut
    CROSS JOIN LATERAL (SELECT team, project, task_name FROM minion_task WHERE task_id = cut.task_id LIMIT 1) AS task
    CROSS JOIN LATERAL generate_series(0, cut.take - 1) AS step
    CROSS JOIN LATERAL (
        SELECT range_start FROM minion_subtask WHERE task_id = cut.task_id AND subtask_id = cut.next_subtask + step LIMIT 1
    ) AS subtask
    ON CONFLICT (team, project, task_name, subtask_id) DO NOTHING
    RETURNING *
)
SELECT acquired.acquirement_id, acquired.executor_id, acquired.task_id, acquired.subtask_id, acquired.attempt,
    acquired.cursor, acquired.team, acquired.project, acquired.task_name, subtask.object, subtask.object_etag,
    subtask.object_bytes, subtask.range_start, subtask.range_end, subtask.format, task.pin,
    acquired.retry, task.retry_codes
FROM acquired
CROSS JOIN LATERAL (
    SELECT object, object_etag, object_bytes, range_start, range_end, format FROM minion_subtask
    WHERE task_id = acquired.task_id AND subtask_id = acquired.subtask_id LIMIT 1
) AS subtask
CROSS JOIN LATERAL (SELECT pin, retry_codes FROM minion_task WHERE task_id = acquired.task_id LIMIT 1) AS task;

-- commit_parts
-- Accept parts whose acquirement still belongs to the executor and whose start is the cursor; end the subtask if final.
-- $1 acquirements, $2 executors, $3 starts, $4 ends, $5 final, $6 rows, $7 failed, $8 truncated, $9 keys (null: no rows),
-- $10 sha256, $11 bytes, $12 input bytes, $13 input tokens, $14 output tokens, $15 seconds, $16 detail, $17 tasks,
-- $18 subtasks (they must be those of the acquirement: the key of the part was made from them).
-- The acquirement is the fence: it is gone or past the start when the call comes late or twice, and nothing changes.
-- A final part must reach the end of its range, any other must stay inside, so that no row can be left out.
-- A retried subtask goes through here once its cursor is past the parts that it has; before, see replace_part.
-- Acquirements are locked in the order of their ids by every statement that takes several, so that none of them wait
-- for each other in a ring.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::text[], $10::bytea[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::real[], $16::jsonb[],
        $17::bigint[], $18::int[]
    ) AS given (acquirement_id, executor_id, part_start, part_end, final, rows, failed_rows, truncated_rows, object_key,
        sha256, size_bytes, input_bytes, input_tokens, output_tokens, seconds, detail, task_id, subtask_id)
), owned AS MATERIALIZED (
    SELECT held.acquirement_id, held.task_id, held.subtask_id, held.attempt, held.losses, held.retry, given.part_end, given.final
    FROM minion_subtask_acquirement AS held
    JOIN given ON held.acquirement_id = given.acquirement_id AND held.executor_id = given.executor_id
        AND held.cursor = given.part_start AND held.task_id = given.task_id AND held.subtask_id = given.subtask_id
    ORDER BY held.acquirement_id
    FOR UPDATE OF held
), fitting AS MATERIALIZED (
    SELECT owned.* FROM owned
    CROSS JOIN LATERAL (
        SELECT range_end FROM minion_subtask
        WHERE task_id = owned.task_id AND subtask_id = owned.subtask_id LIMIT 1
    ) AS subtask
    JOIN given USING (acquirement_id)
    WHERE CASE WHEN owned.final THEN owned.part_end >= given.part_start
            AND (subtask.range_end IS NULL OR owned.part_end = subtask.range_end)
        ELSE owned.part_end > given.part_start
            AND (subtask.range_end IS NULL OR owned.part_end < subtask.range_end) END
        AND (owned.retry IS NULL OR NOT EXISTS (
            SELECT FROM minion_subtask_ledger AS part
            WHERE part.task_id = owned.task_id AND part.subtask_id = owned.subtask_id
                AND part.part_start = given.part_start AND part.entry = 'part' AND part.superseded_at IS NULL
        ))
), ended AS (
    DELETE FROM minion_subtask_acquirement AS held USING fitting
    WHERE fitting.final AND held.acquirement_id = fitting.acquirement_id
    RETURNING held.acquirement_id, held.task_id, held.subtask_id, held.attempt, held.losses, held.waited_seconds
), advanced AS (
    UPDATE minion_subtask_acquirement AS held SET cursor = fitting.part_end FROM fitting
    WHERE NOT fitting.final AND held.acquirement_id = fitting.acquirement_id
    RETURNING held.acquirement_id, held.task_id, held.subtask_id, held.attempt, held.losses, held.waited_seconds
), accepted AS (
    SELECT * FROM ended UNION ALL SELECT * FROM advanced
), parts AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, part_start, part_end, rows,
        failed_rows, truncated_rows, object_key, sha256, size_bytes, input_bytes, input_tokens, output_tokens, seconds,
        detail)
    SELECT accepted.task_id, accepted.subtask_id, 'part', given.executor_id, acquirement_id, accepted.attempt,
        accepted.losses, given.part_start, given.part_end, given.rows, given.failed_rows, given.truncated_rows,
        given.object_key, given.sha256, given.size_bytes, given.input_bytes, given.input_tokens, given.output_tokens,
        given.seconds, given.detail
    FROM accepted JOIN given USING (acquirement_id)
), ends AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, waited_seconds)
    SELECT ended.task_id, ended.subtask_id, 'done', given.executor_id, acquirement_id, ended.attempt, ended.losses,
        ended.waited_seconds
    FROM ended JOIN given USING (acquirement_id)
)
SELECT acquirement_id, task_id, subtask_id FROM accepted;

-- find_part
-- A part that was committed under this acquirement before: the answer to it was lost, and it is sent again.
SELECT ledger_id, sha256, part_end, task_id, subtask_id FROM minion_subtask_ledger
WHERE entry = 'part' AND superseded_at IS NULL AND task_id = $1 AND subtask_id = $2 AND part_start = $3
    AND acquirement_id = $4 AND executor_id = $5;

-- give_back
-- Take subtasks from their executors: back to the queue, or set aside when the bound of attempts or losses is reached.
-- $1 acquirements, $2 executors, $3 entries (released, lost, fault), $4 reasons, $5 messages,
-- $6 seconds until each may be handed out again, $7 max attempts, $8 max losses, $9 seconds for which others come first,
-- $10 details. A task of commands has a bound of attempts of its own: its retries and one.
-- A subtask that had been done before it was retried is not set aside: it is done again with the rows that it has.
-- A second start that is given back is noted, and counts as no attempt and no loss. When its owner gives a subtask back,
-- the second start is the owner from then on, in place of the queue, unless it is given back in the same call or the bound
-- is reached: what was tried so often has failed, whoever else still tries. See second_starts.sql.
-- What is given is joined with what is locked, and nothing else: with the table in the same join, the planner, which cannot
-- know how many are given, compares each with each (2 s for 2,000 instead of 0.1).
-- Tasks are locked before acquirements, as cancelling does, so that the two never wait for each other in a ring; the
-- lock also makes a pause that happens meanwhile visible here.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::float8[], $9::float8[],
        $10::jsonb[])
        AS given (acquirement_id, executor_id, entry, reason, message, delay_seconds, avoid_seconds, detail)
), concerned AS MATERIALIZED (
    SELECT held.acquirement_id, held.task_id FROM minion_subtask_acquirement AS held JOIN given USING (acquirement_id)
    UNION
    SELECT held.acquirement_id, held.task_id FROM minion_subtask_acquirement AS held
    JOIN given ON held.second_id = given.acquirement_id
), task AS MATERIALIZED (
    SELECT task_id, lane, priority, paused, CASE kind WHEN 'command'
        THEN (specification -> 'parameters' ->> 'retries')::int + 1 ELSE $7::int END AS max_attempts
    FROM minion_task
    WHERE task_id IN (SELECT task_id FROM concerned)
    ORDER BY task_id
    FOR SHARE
), owned AS MATERIALIZED (
    SELECT held.* FROM minion_subtask_acquirement AS held
    JOIN concerned USING (acquirement_id)
    WHERE held.task_id = ANY (ARRAY(SELECT task_id FROM task))
    ORDER BY held.acquirement_id
    FOR UPDATE OF held
), leaving AS MATERIALIZED (
    SELECT given.* FROM owned
    JOIN given ON owned.acquirement_id = given.acquirement_id AND owned.executor_id = given.executor_id
), stopped AS MATERIALIZED (
    SELECT owned.acquirement_id AS owner_id, owned.task_id, owned.subtask_id, owned.attempt, owned.losses, given.*
    FROM owned JOIN given ON owned.second_id = given.acquirement_id AND owned.second_executor_id = given.executor_id
), ended AS (
    DELETE FROM minion_subtask_acquirement AS held USING leaving, task
    WHERE held.acquirement_id = leaving.acquirement_id AND held.task_id = task.task_id
    RETURNING held.*, leaving.entry, leaving.reason, leaving.message, leaving.delay_seconds, leaving.avoid_seconds,
        leaving.detail, task.lane, task.priority, task.paused, task.max_attempts
), cleared AS (
    -- What its executor never heard of was not started.
    UPDATE minion_subtask_acquirement AS held SET second_id = NULL, second_executor_id = NULL,
        second_since = CASE WHEN stopped.reason NOT IN ('not_delivered', 'answer_lost') THEN held.second_since END
    FROM stopped
    WHERE held.acquirement_id = stopped.owner_id AND stopped.owner_id NOT IN (SELECT acquirement_id FROM ended)
), counted AS (
    SELECT *, attempt + (entry = 'fault')::int AS attempts, losses + (entry = 'lost')::int AS lost_owners,
        CASE WHEN entry = 'fault' THEN avoid || executor_id ELSE avoid END AS tried_by
    FROM ended
), judged AS (
    SELECT *, attempts >= max_attempts OR lost_owners >= $8 AS is_over,
        second_id IS NOT NULL AND second_id NOT IN (SELECT acquirement_id FROM stopped) AS has_second
    FROM counted
), noted AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason, message, waited_seconds, detail)
    SELECT task_id, subtask_id, said, executor_id, acquirement_id, attempts, lost_owners, why, message, waited,
        CASE place WHEN 1 THEN coalesce(detail, '{}') || jsonb_build_object(
            'held_seconds', round(extract(epoch FROM clock_timestamp() - acquired_at), 1)) ELSE detail END
    FROM (
        SELECT *, entry AS said, reason AS why, waited_seconds AS waited, 1 AS place FROM judged
        UNION ALL
        SELECT *, CASE retry WHEN 'rows' THEN 'done' ELSE 'failed' END, CASE WHEN lost_owners >= $8 THEN 'owners_lost' ELSE reason END, NULL, 2 FROM judged
        WHERE is_over
    ) AS entries
    ORDER BY place, task_id, subtask_id
), noted_seconds AS (
    INSERT INTO minion_subtask_ledger
        (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason, message, detail)
    SELECT task_id, subtask_id, entry, executor_id, acquirement_id, attempt, losses, reason, message, detail FROM stopped
), taken_over AS (
    INSERT INTO minion_subtask_acquirement
        (acquirement_id, team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, acquired_at,
        avoid, retry, second_since)
    OVERRIDING SYSTEM VALUE
    SELECT second_id, team, project, task_name, subtask_id, task_id, second_executor_id, attempts, lost_owners, cursor,
        second_since, tried_by, retry, second_since
    FROM judged WHERE has_second AND NOT is_over
), again AS (
    INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, attempt, losses,
        cursor, retry, ready, not_before, waiting_since, avoid, avoid_until)
    SELECT lane, priority, task_id, subtask_id, subtask_id, subtask_id + 1, attempts, lost_owners, cursor,
        retry, NOT paused AND delay_seconds <= 0,
        CASE WHEN delay_seconds > 0 THEN now() + make_interval(secs => delay_seconds) END,
        now() + make_interval(secs => greatest(0, delay_seconds)),
        tried_by,
        CASE WHEN tried_by IS NOT NULL THEN now() + make_interval(
            secs => CASE WHEN avoid_seconds > 0 THEN greatest(0, delay_seconds) + avoid_seconds ELSE 0 END) END
    FROM judged WHERE NOT is_over AND NOT has_second
    ORDER BY task_id, subtask_id
)
SELECT acquirement_id, task_id, subtask_id, executor_id, NOT is_over AND NOT has_second AS queued,
    NOT is_over AND has_second AS goes_on
FROM judged
UNION ALL
SELECT acquirement_id, task_id, subtask_id, executor_id, false, true FROM stopped;

-- promote_due
-- Make ranges ready whose time has come; those of paused tasks wait until they are resumed.
-- The tasks are locked first, as pausing and resuming do: read without the lock, `paused` can be the opposite of what
-- is in force when the range changes, and then a paused task hands out work, or a resumed one never does.
WITH due AS MATERIALIZED (
    SELECT range_id, task_id FROM minion_subtask_queue WHERE not_before <= now() ORDER BY not_before LIMIT 1000
), task AS MATERIALIZED (
    SELECT task_id, paused FROM minion_task WHERE task_id IN (SELECT task_id FROM due)
    ORDER BY task_id
    FOR SHARE
), free AS MATERIALIZED (
    SELECT queue.range_id, queue.task_id FROM minion_subtask_queue AS queue
    WHERE queue.range_id IN (SELECT range_id FROM due) AND queue.not_before IS NOT NULL
        AND queue.task_id = ANY (ARRAY(SELECT task_id FROM task))
    ORDER BY queue.range_id
    FOR UPDATE OF queue SKIP LOCKED
)
UPDATE minion_subtask_queue AS queue SET ready = NOT task.paused, not_before = NULL
FROM free JOIN task USING (task_id)
WHERE queue.range_id = free.range_id
RETURNING queue.range_id, queue.ready;

-- held_by
-- What an executor holds, if this is its running session; at least one row, for the newest acquirement that there is.
-- That is read from the sequence, which gives numbers in order whoever commits first: by the table, one that is being
-- inserted by an older statement would come to light later with a lower number. Second starts are held like the others.
SELECT newest.newest, held.acquirement_id, held.since < now() - interval '1 minute' AS settled
FROM (
    SELECT coalesce(pg_sequence_last_value('minion_subtask_acquirement_acquirement_id_seq'::regclass), 0) AS newest
) AS newest
LEFT JOIN (
    SELECT acquirement_id, acquired_at AS since FROM minion_subtask_acquirement WHERE executor_id = $1
    UNION ALL
    SELECT second_id, second_since FROM minion_subtask_acquirement WHERE second_executor_id = $1
) AS held ON EXISTS (SELECT FROM minion_executor WHERE executor_id = $1 AND session = $2);

-- held_in_any_session
-- All that an executor holds, for taking it away.
SELECT acquirement_id FROM minion_subtask_acquirement WHERE executor_id = $1
UNION ALL
SELECT second_id FROM minion_subtask_acquirement WHERE second_executor_id = $1;

-- assignment_of
-- What fresh links are signed for: the subtask behind an acquirement that the executor still owns.
SELECT held.task_id, held.subtask_id, held.cursor, held.attempt, subtask.object
FROM (
    SELECT * FROM minion_subtask_acquirement WHERE acquirement_id = $1 AND executor_id = $2
    UNION ALL
    SELECT * FROM minion_subtask_acquirement WHERE second_id = $1 AND second_executor_id = $2
) AS held
JOIN minion_subtask AS subtask USING (task_id, subtask_id);

-- lock_silent_executors
-- Executors that hold subtasks and gave no sign of life for $1 seconds, nor were given anything: an idle one may wait for
-- work longer than that. FOR UPDATE re-reads the row, so that a late sign of life wins; SKIP LOCKED makes a second
-- watchdog harmless. One that holds only what stays its own is found once, to be called offline.
WITH busy AS MATERIALIZED (
    SELECT executor_id, bool_or(task_id NOT IN (SELECT task_id FROM minion_task WHERE keeps_owner AND ended_at IS NULL)) AS may_lose,
        max(given_at) AS given_at
    FROM (
        SELECT executor_id, task_id, acquired_at AS given_at FROM minion_subtask_acquirement
        UNION ALL
        SELECT second_executor_id, task_id, second_since FROM minion_subtask_acquirement WHERE second_id IS NOT NULL
    ) AS held
    GROUP BY executor_id
)
SELECT executor.executor_id, executor.name, extract(epoch FROM now() - executor.last_seen_at)::float8 AS silent_seconds
FROM busy JOIN minion_executor AS executor USING (executor_id)
WHERE executor.last_seen_at < now() - make_interval(secs => $1) AND busy.given_at < now() - make_interval(secs => $1)
    AND (busy.may_lose OR executor.state <> 'offline')
LIMIT 500
FOR UPDATE OF executor SKIP LOCKED;

-- held_by_silent
-- What the executors in $1 hold and lose by silence.
SELECT acquirement_id, executor_id FROM minion_subtask_acquirement
WHERE executor_id = ANY ($1::bigint[])
    AND task_id NOT IN (SELECT task_id FROM minion_task WHERE keeps_owner AND ended_at IS NULL)
UNION ALL
SELECT second_id, second_executor_id FROM minion_subtask_acquirement WHERE second_executor_id = ANY ($1::bigint[]);

-- has_ready
-- Whether something waits that these lanes could have been given: a racer held it locked when we looked.
SELECT EXISTS (
    SELECT FROM unnest($1::text[]) AS wanted (lane) CROSS JOIN LATERAL (
        SELECT FROM minion_subtask_queue
        WHERE ready AND lane = wanted.lane AND task_id <> ALL ($2::bigint[])
            AND (avoid IS NULL OR avoid_until <= now() OR NOT avoid && $3::bigint[]) LIMIT 1
    ) AS head
) AS ready;
