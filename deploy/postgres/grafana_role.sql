-- The role with which Grafana reads. Run it as somebody who may create roles, in any database of the server; once, and again
-- to change the password. What the role may read, the owner of the tables grants: grafana_grants.sql.
--
--     MINIONS_GRAFANA_PASSWORD=… psql "postgresql://…/postgres" -f deploy/postgres/grafana_role.sql
--
-- The password is in no list of processes and in no statement, so in no log of the server: it comes from the environment,
-- travels as data of COPY, and the role is given what SCRAM makes of it. psql 15 or later; any server.

\set ON_ERROR_STOP on
\getenv password MINIONS_GRAFANA_PASSWORD
\if :{?password}
\else
DO $$ BEGIN RAISE EXCEPTION 'set MINIONS_GRAFANA_PASSWORD'; END $$;
\endif

BEGIN;
CREATE TEMPORARY TABLE given (password text) ON COMMIT DROP;
\copy given FROM PROGRAM 'printenv MINIONS_GRAFANA_PASSWORD' WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')

SELECT 'CREATE ROLE minions_grafana' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'minions_grafana') \gexec
ALTER ROLE minions_grafana WITH LOGIN CONNECTION LIMIT 20;
-- A dashboard of a year must not keep a core busy for an hour. Courtesies: a session of the role may lift both.
ALTER ROLE minions_grafana SET statement_timeout = '30s';
ALTER ROLE minions_grafana SET default_transaction_read_only = on;

-- The key of an HMAC (RFC 2104), as one of its two hashes begins with it.
CREATE FUNCTION pg_temp.padded(key bytea, pad int) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    block bytea := decode(rpad(encode(CASE WHEN length(key) > 64 THEN sha256(key) ELSE key END, 'hex'), 128, '0'), 'hex');
BEGIN
    FOR place IN 0..63 LOOP
        block := set_byte(block, place, get_byte(block, place) # pad);
    END LOOP;
    RETURN block;
END $$;

-- What SCRAM keeps of a password (RFC 5802, 4096 rounds), as PostgreSQL writes it.
DO $$
DECLARE
    secret text[] := ARRAY(SELECT password FROM given);
    salt bytea := decode(replace(gen_random_uuid()::text, '-', ''), 'hex');
    inner_key bytea; outer_key bytea; hash bytea; salted bytea; client_key bytea; server_key bytea;
    sums bigint[] := ARRAY[0, 0, 0, 0];
BEGIN
    IF cardinality(secret) <> 1 OR coalesce(secret[1], '') !~ '^[ -~]+$' THEN
        RAISE EXCEPTION 'MINIONS_GRAFANA_PASSWORD must be one line of printable ASCII';
    END IF;
    inner_key := pg_temp.padded(convert_to(secret[1], 'UTF8'), 54);
    outer_key := pg_temp.padded(convert_to(secret[1], 'UTF8'), 92);
    hash := salt || '\x00000001'::bytea;
    FOR round IN 1..4096 LOOP
        hash := sha256(outer_key || sha256(inner_key || hash));
        FOR part IN 1..4 LOOP
            sums[part] := sums[part] # ('x' || encode(substr(hash, 8 * part - 7, 8), 'hex'))::bit(64)::bigint;
        END LOOP;
    END LOOP;
    salted := int8send(sums[1]) || int8send(sums[2]) || int8send(sums[3]) || int8send(sums[4]);
    inner_key := pg_temp.padded(salted, 54);
    outer_key := pg_temp.padded(salted, 92);
    client_key := sha256(outer_key || sha256(inner_key || 'Client Key'::bytea));
    server_key := sha256(outer_key || sha256(inner_key || 'Server Key'::bytea));
    EXECUTE format('ALTER ROLE minions_grafana PASSWORD %L', format('SCRAM-SHA-256$4096:%s$%s:%s',
        encode(salt, 'base64'), encode(sha256(client_key), 'base64'), encode(server_key, 'base64')));
END $$;
COMMIT;
