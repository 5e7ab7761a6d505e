-- insert_token
INSERT INTO minion_token (name, scope, teams, secret_sha256, expires_at)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))
ON CONFLICT (secret_sha256) DO NOTHING
RETURNING *;

-- find_token
SELECT token_id, name, scope, teams FROM minion_token
WHERE secret_sha256 = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- note_token_used
-- At most once a minute, so that a busy token costs no write a request.
UPDATE minion_token SET last_used_at = now()
WHERE token_id = ANY ($1::bigint[]) AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute');

-- list_tokens
SELECT * FROM minion_token WHERE revoked_at IS NULL ORDER BY token_id;

-- count_tokens
SELECT count(*) FROM minion_token WHERE revoked_at IS NULL;

-- revoke_token
UPDATE minion_token SET revoked_at = now() WHERE token_id = $1 AND revoked_at IS NULL RETURNING token_id;

-- insert_upload
INSERT INTO minion_upload (filename, size_bytes, object_key, token_id, sha256) VALUES ($1, $2, $3, $4, $5)
RETURNING upload_id;

-- name_upload
UPDATE minion_upload SET object_key = $2 WHERE upload_id = $1;

-- read_upload
SELECT * FROM minion_upload WHERE upload_id = $1;

-- read_deployment
SELECT label, link_secret FROM minion_deployment;

-- insert_deployment
INSERT INTO minion_deployment (label, link_secret) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- note_serving
-- A server is there. After a gap of more than $1 seconds, silence is counted anew.
UPDATE minion_deployment SET
    serving_since = CASE WHEN server_seen_at < now() - make_interval(secs => $1) THEN now() ELSE serving_since END,
    server_seen_at = now();

-- note_patience
UPDATE minion_deployment SET lease_seconds = $1, offline_seconds = $2;

-- serving_seconds
-- For how long a server has been there without a gap; 0 when none is there now.
SELECT CASE WHEN server_seen_at < now() - make_interval(secs => $1) THEN 0
    ELSE extract(epoch FROM now() - serving_since) END::float8 AS seconds
FROM minion_deployment;

-- read_token
-- A token by its number, unless it was revoked or has expired: what a browser's session stands on.
SELECT token_id, name, scope, teams FROM minion_token
WHERE token_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- insert_sign_in
-- A link to sign in with once. Those that nobody used in time go on the way.
WITH gone AS (
    DELETE FROM minion_sign_in WHERE expires_at < now()
)
INSERT INTO minion_sign_in (key_sha256, token_id, expires_at) VALUES ($1, $2, now() + make_interval(secs => $3))
RETURNING expires_at;

-- use_sign_in
-- Once: whoever deletes it has used it.
DELETE FROM minion_sign_in WHERE key_sha256 = $1 RETURNING CASE WHEN expires_at > now() THEN token_id END AS token_id;
