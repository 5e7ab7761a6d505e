-- Whoever may connect to a database may take any advisory lock in it. So only the lock of a session counts as a watchdog's
-- that could be one: whose role may take subtasks from executors, as minions.store.watchdog has it.

CREATE OR REPLACE VIEW grafana_watchdog AS
SELECT count(*)::int AS active FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = 7170423 AND objid = 1635017576
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND has_table_privilege(usesysid, 'minion_subtask_acquirement'::regclass, 'DELETE');
