-- place_before
-- The newest entry that is older than $1, found by walking back from the end: numbers and times rise together but for the
-- length of a transaction. What came after it is then a short range of the primary key; asked for by its time alone,
-- PostgreSQL walks an index of the whole ledger.
SELECT ledger_id FROM minion_subtask_ledger WHERE at < $1::timestamptz - interval '1 minute' ORDER BY ledger_id DESC LIMIT 1;

-- database_time
SELECT now() AS now;

-- rows_by_moment
-- Rows committed and subtasks done after $1, of which $2 is a place before, and within a day, by five minutes and team. Settled: so old that no
-- transaction under way can still add to it, so that nobody has to read it again.
SELECT recent.settled, recent.mark, recent.moment, task.team, sum(recent.rows)::bigint AS rows,
    sum(recent.failed_rows)::bigint AS failed_rows, sum(recent.done)::int AS done
FROM (
    SELECT ledger.at <= mark.at AS settled, mark.at AS mark, task_id,
        (floor(extract(epoch FROM ledger.at) / 300) * 300)::bigint AS moment,
        sum(rows - kept_rows) AS rows, sum(failed_rows) AS failed_rows, count(*) FILTER (WHERE entry = 'done') AS done
    FROM (SELECT now() - interval '2 minutes' AS at) AS mark
    JOIN minion_subtask_ledger AS ledger ON ledger.at > greatest($1::timestamptz, now() - interval '1 day')
    WHERE ledger.entry IN ('part', 'done') AND ledger.ledger_id > $2
    GROUP BY 1, 2, 3, 4
) AS recent JOIN minion_task AS task USING (task_id)
GROUP BY 1, 2, 3, 4;

-- work_by_executor
-- The same by hour and executor: what each did, and what became of the subtasks that it took.
SELECT ledger.at <= mark.at AS settled, mark.at AS mark, executor_id,
    (floor(extract(epoch FROM ledger.at) / 3600) * 3600)::bigint AS hour,
    sum(rows - kept_rows)::bigint AS rows, sum(seconds)::float8 AS seconds,
    count(*) FILTER (WHERE entry = 'done')::int AS done,
    count(*) FILTER (WHERE entry = 'released')::int AS released,
    count(*) FILTER (WHERE entry = 'lost')::int AS lost,
    count(*) FILTER (WHERE entry IN ('fault', 'failed'))::int AS faults
FROM (SELECT now() - interval '2 minutes' AS at) AS mark
JOIN minion_subtask_ledger AS ledger ON ledger.at > greatest($1::timestamptz, now() - interval '1 day')
WHERE executor_id IS NOT NULL AND ledger.ledger_id > $2
GROUP BY 1, 2, 3, 4;

-- rates_lately
-- Rows a second committed over the last minute, of which $1 is a place before, by team: those of its tasks together, each
-- over the last minute, or since its start or retry, as in recent_rates.
SELECT task.team,
    sum(part.rows / greatest(1, least(60, extract(epoch FROM now() - coalesce(task.retried_at, task.started_at)))))::float8 AS rows_per_second
FROM (
    SELECT task_id, sum(rows - kept_rows) AS rows FROM minion_subtask_ledger
    WHERE entry = 'part' AND ledger_id > $1 AND at > now() - interval '1 minute' GROUP BY task_id
) AS part JOIN minion_task AS task USING (task_id)
GROUP BY task.team;

-- failed_rows_lately
-- Failed rows of the last day by code, of the teams in $1 (null: all), with how many tasks they are in and one of them.
SELECT code, sum(count::bigint)::bigint AS rows, count(DISTINCT part.task_id)::int AS tasks, max(part.task_id) AS task_id
FROM minion_subtask_ledger AS part JOIN minion_task AS task USING (task_id)
CROSS JOIN LATERAL jsonb_each_text(part.detail -> 'failures') AS failure (code, count)
WHERE part.entry = 'part' AND part.failed_rows > 0 AND part.at > now() - interval '1 day' AND part.superseded_at IS NULL
    AND ($1::text[] IS NULL OR task.team = ANY ($1))
GROUP BY code ORDER BY rows DESC, code LIMIT 8;

-- troubles_lately
-- Subtasks of the last day that were lost, could not be done or were set aside, by entry and reason.
SELECT entry, reason, count(*)::int AS subtasks, count(DISTINCT ledger.task_id)::int AS tasks, max(ledger.task_id) AS task_id
FROM minion_subtask_ledger AS ledger JOIN minion_task AS task USING (task_id)
WHERE entry IN ('lost', 'fault', 'failed') AND at > now() - interval '1 day' AND superseded_at IS NULL
    AND ($1::text[] IS NULL OR task.team = ANY ($1))
GROUP BY entry, reason ORDER BY subtasks DESC, entry, reason LIMIT 8;
