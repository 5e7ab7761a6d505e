-- become_watchdog
-- Take the lock of the active watchdog, $1, unless another has it; it lasts as long as the connection.
SELECT pg_try_advisory_lock($1) AS taken;

-- watchdog_is_active
-- Whether somebody holds that lock; every role is shown all locks. A lock of one number lies there as its two halves.
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND classid = ($1::bigint >> 32)::oid AND objid = ($1::bigint & 4294967295)::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS active;
