-- add_up
-- What the ledger adds to each task in $1 since $2, in cells of 2^$3 neighbouring subtasks. Settled: so old that no
-- transaction under way can still add to it, so that nobody has to read it again.
SELECT ledger.task_id, ledger.at <= mark.at AS settled, mark.at AS mark, ledger.subtask_id >> wanted.shift AS cell,
    count(*) FILTER (WHERE entry = 'done')::int AS done,
    count(*) FILTER (WHERE entry = 'failed')::int AS failed,
    coalesce(sum(subtasks) FILTER (WHERE entry = 'cancelled'), 0)::int AS cancelled,
    count(*) FILTER (WHERE entry IN ('released', 'lost', 'fault', 'failed'))::int AS troubles,
    sum(rows)::bigint AS rows, sum(failed_rows)::bigint AS failed_rows, sum(truncated_rows)::bigint AS truncated_rows,
    sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
    sum(seconds)::float8 AS seconds
FROM (SELECT now() - interval '2 minutes' AS at) AS mark
CROSS JOIN unnest($1::bigint[], $2::timestamptz[], $3::int[]) AS wanted (task_id, since, shift)
JOIN minion_subtask_ledger AS ledger ON ledger.task_id = wanted.task_id AND ledger.at > wanted.since
WHERE ledger.superseded_at IS NULL
GROUP BY 1, 2, 3, 4;

-- add_up_failures
-- The same of failed rows by code, each with the first part that holds one.
SELECT part.task_id, part.at <= mark.at AS settled, code, sum(count::bigint)::bigint AS rows,
    min(ARRAY[part.subtask_id::bigint, part.part_start]) AS place
FROM (SELECT now() - interval '2 minutes' AS at) AS mark
CROSS JOIN unnest($1::bigint[], $2::timestamptz[]) AS wanted (task_id, since)
JOIN minion_subtask_ledger AS part ON part.task_id = wanted.task_id AND part.at > wanted.since
CROSS JOIN LATERAL jsonb_each_text(part.detail -> 'failures') AS failure (code, count)
WHERE part.entry = 'part' AND part.failed_rows > 0 AND part.superseded_at IS NULL
GROUP BY 1, 2, 3;

-- add_up_troubles
-- The same of what went wrong with whole subtasks, by entry and reason, each with its first subtask.
SELECT ledger.task_id, ledger.at <= mark.at AS settled, entry, reason, count(*)::int AS entries,
    min(subtask_id) AS subtask_id, max(ledger.at) AS last_at
FROM (SELECT now() - interval '2 minutes' AS at) AS mark
CROSS JOIN unnest($1::bigint[], $2::timestamptz[]) AS wanted (task_id, since)
JOIN minion_subtask_ledger AS ledger ON ledger.task_id = wanted.task_id AND ledger.at > wanted.since
WHERE entry IN ('released', 'lost', 'fault', 'failed') AND superseded_at IS NULL
GROUP BY 1, 2, 3, 4;

-- held_counts
-- How many subtasks of each task in $1 are under way.
SELECT task_id, count(*)::int AS held FROM minion_subtask_acquirement WHERE task_id = ANY ($1::bigint[]) GROUP BY task_id;
