-- The role with which Grafana reads: SELECT on the views made for it, and nothing else. Run it as the owner of the tables,
-- after a server has set up the database, and again after an upgrade, which may bring new views:
--
--     MINIONS_GRAFANA_PASSWORD=… psql "$MINIONS_DATABASE_URL" -f deploy/postgres/grafana_role.sql
--
-- The password comes from the environment, so that no list of processes shows it. psql 15 or later; any server.

\set ON_ERROR_STOP on
\getenv password MINIONS_GRAFANA_PASSWORD
\if :{?password}
\else
DO $$ BEGIN RAISE EXCEPTION 'set MINIONS_GRAFANA_PASSWORD'; END $$;
\endif

BEGIN;
SELECT 'CREATE ROLE minions_grafana' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'minions_grafana') \gexec
ALTER ROLE minions_grafana WITH LOGIN PASSWORD :'password' CONNECTION LIMIT 20;
-- A dashboard of a year must not keep a core busy for an hour.
ALTER ROLE minions_grafana SET statement_timeout = '30s';
ALTER ROLE minions_grafana SET default_transaction_read_only = on;

-- Whatever it was once given goes; only the views stay. Before PostgreSQL 15 everybody may create tables in public.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM minions_grafana;
SELECT format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema())
WHERE has_schema_privilege('public', current_schema(), 'CREATE') \gexec
SELECT format('GRANT USAGE ON SCHEMA %I TO minions_grafana', current_schema()) \gexec
SELECT format('GRANT SELECT ON %I.%I TO minions_grafana', schemaname, viewname)
FROM pg_views WHERE schemaname = current_schema() AND viewname LIKE 'grafana\_%' \gexec
COMMIT;
