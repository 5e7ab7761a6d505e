-- become_watchdog
-- Take the lock of the active watchdog, $1, unless another has it; it lasts as long as the connection.
SELECT pg_try_advisory_lock($1) AS taken;

-- watchdog_lock_holders
-- Which sessions hold that lock, and whether they may be a watchdog: every role can take any lock, and none but ours may take
-- subtasks from executors. Every role is shown all locks and whose sessions hold them. A lock of one number lies there as
-- its two halves.
SELECT pid, usename AS role, has_table_privilege(usesysid, 'minion_subtask_acquirement', 'DELETE') AS may_be
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = ($1::bigint >> 32)::oid AND objid = ($1::bigint & 4294967295)::oid
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database());
