-- For a database that is Minions' own: takes advisory locks and large objects from all roles but the owner of the tables. They
-- are PostgreSQL's to give, so a superuser runs this, in that database and once; it takes them from other programs there, too.
--
--     psql postgresql://postgres@…/minions -f deploy/postgres/fence.sql
--
-- A watchdog or server that has a role of its own, which does not own the tables, needs them granted.

\set ON_ERROR_STOP on

BEGIN;
SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', pg_proc.oid::regprocedure),
    format('GRANT EXECUTE ON FUNCTION %s TO %I', pg_proc.oid::regprocedure, pg_get_userbyid(relowner))
FROM pg_proc, pg_class
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^pg_(try_)?advisory_|^lo(_|read|write)'
    AND pg_class.oid = 'minion_task'::regclass
    -- Not what is a superuser's anyway, such as lo_import.
    AND has_function_privilege('public', pg_proc.oid, 'EXECUTE') \gexec
COMMIT;
