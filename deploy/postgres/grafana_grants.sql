-- What Grafana's role may read: the views made for it, and nothing else. Run it as the owner of the tables, after
-- grafana_role.sql and after a server has set up the database, and again after an upgrade, which may bring new views:
--
--     psql "$MINIONS_DATABASE_URL" -f deploy/postgres/grafana_grants.sql

\set ON_ERROR_STOP on

BEGIN;
-- Whatever it was once given goes; only the views stay. Before PostgreSQL 15 everybody may create tables in public.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM minions_grafana;
SELECT format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema())
WHERE has_schema_privilege('public', current_schema(), 'CREATE') \gexec
-- Nobody but the owner needs temporary tables in a database of Minions' own. One that is somebody else's is left as it is.
SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', datname) FROM pg_database
WHERE datname = current_database() AND has_database_privilege('minions_grafana', oid, 'TEMPORARY')
    AND datdba = (SELECT relowner FROM pg_class WHERE oid = 'minion_task'::regclass) \gexec
SELECT format('GRANT USAGE ON SCHEMA %I TO minions_grafana', current_schema()) \gexec
SELECT format('GRANT SELECT ON %I.%I TO minions_grafana', schemaname, viewname)
FROM pg_views WHERE schemaname = current_schema() AND viewname LIKE 'grafana\_%' \gexec
COMMIT;
