-- Silence: an executor that is heard of no more is told as offline by whoever reads, also while no watchdog is there to
-- write it down. Servers say here when that is, so that pages, the command line and Grafana say the same.

ALTER TABLE minion_deployment ADD COLUMN lease_seconds float8;
ALTER TABLE minion_deployment ADD COLUMN offline_seconds float8;
COMMENT ON COLUMN minion_deployment.lease_seconds IS
    'An executor that holds subtasks and is silent for so long is told as offline; null: no server has said it yet.';
COMMENT ON COLUMN minion_deployment.offline_seconds IS 'The same of one that holds nothing.';

-- Silence is counted as the watchdog counts it: only while a server was there to be spoken to, up to when it was seen last,
-- and from what it was given last, since an idle one may wait for work longer than the lease.
CREATE VIEW minion_executor_standing AS
SELECT executor.executor_id, executor.instance, executor.session, executor.name, executor.owner, executor.version,
    executor.token_id, executor.device, executor.kinds, executor.engines, executor.memory_mb, executor.preferences,
    CASE WHEN silence.is_new THEN 'offline' ELSE executor.state END AS state,
    CASE WHEN silence.is_new THEN 'no sign of life' ELSE executor.state_reason END AS state_reason,
    CASE WHEN silence.is_new OR executor.state = 'offline' AND executor.state_reason = 'no sign of life'
        THEN executor.last_seen_at ELSE executor.state_since END AS state_since,
    executor.registered_at, executor.last_seen_at, executor.teams, executor.leaves,
    coalesce(silence.is_new, false) AS is_silent
FROM minion_executor AS executor
LEFT JOIN minion_deployment AS deployment ON true
LEFT JOIN (
    SELECT executor_id, max(given_at) AS given_at
    FROM (
        SELECT executor_id, acquired_at FROM minion_subtask_acquirement
        UNION ALL
        SELECT second_executor_id, second_since FROM minion_subtask_acquirement WHERE second_executor_id IS NOT NULL
    ) AS each (executor_id, given_at)
    GROUP BY executor_id
) AS held ON held.executor_id = executor.executor_id
CROSS JOIN LATERAL (
    SELECT least(now(), deployment.server_seen_at) - greatest(executor.last_seen_at, deployment.serving_since) AS lasts
) AS counted
CROSS JOIN LATERAL (
    SELECT executor.state <> 'offline'
        AND counted.lasts > make_interval(secs => deployment.lease_seconds)
        AND (counted.lasts > make_interval(secs => deployment.offline_seconds)
            OR held.given_at < now() - make_interval(secs => deployment.lease_seconds)) AS is_new
) AS silence;
COMMENT ON VIEW minion_executor_standing IS
    'Executors as people are told of them. state is offline, since it was heard of last, for one that fell silent.';
COMMENT ON COLUMN minion_executor_standing.is_silent IS 'Nobody has written down yet that it is offline.';

CREATE OR REPLACE VIEW grafana_executor AS
SELECT executor_id, name, owner, version, coalesce(device ->> 'chip', '') AS chip, kinds, memory_mb, state,
    state_reason, state_since, registered_at, last_seen_at
FROM minion_executor_standing;

-- The advisory lock of the active watchdog, as minions.store.watchdog has it; every role sees who holds one.
CREATE VIEW grafana_watchdog AS
SELECT count(*)::int AS active FROM pg_locks
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = 7170423 AND objid = 1635017576
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
COMMENT ON VIEW grafana_watchdog IS 'Whether a watchdog gives back what silent executors hold: 1, or 0.';
