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

-- list_administrators
SELECT token_id, name, scope, teams FROM minion_token
WHERE scope = 'admin' AND teams IS NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- other_tokens_named
SELECT token_id FROM minion_token
WHERE name = $1 AND secret_sha256 <> $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
ORDER BY token_id;

-- revoke_token
UPDATE minion_token SET revoked_at = now() WHERE token_id = $1 AND revoked_at IS NULL RETURNING token_id;

-- insert_upload
INSERT INTO minion_upload (filename, size_bytes, object_key, token_id, sha256) VALUES ($1, $2, $3, $4, $5)
RETURNING upload_id;

-- name_upload
UPDATE minion_upload SET object_key = $2 WHERE upload_id = $1;

-- read_upload
-- Not one that was withdrawn.
SELECT * FROM minion_upload WHERE upload_id = $1 AND object_key <> '';

-- keep_uploads
-- Which of these uploads are there. Until the transaction ends, by when a task names them, none of them is withdrawn.
SELECT upload_id FROM minion_upload WHERE upload_id = ANY ($1::bigint[]) AND object_key <> ''
ORDER BY upload_id FOR SHARE;

-- unnamed_uploads
-- Uploads that are older than $1 seconds and that no task names; $2 at most, and only of $3 (null: of all). Tasks name
-- them by key, those of commands by id as well, with any number of zeros; by URI in tasks of earlier versions only.
-- Which tasks name an upload is not indexed: this reads all tasks, a second for 100,000, once an hour.
WITH named AS MATERIALIZED (
    SELECT substring(input FROM '(?:^objects:|/)uploads/upl_0*([0-9a-z]+)/') AS digits
    FROM minion_task, jsonb_array_elements_text(specification -> 'inputs') AS input
    UNION ALL
    SELECT substring(model FROM '/uploads/upl_0*([0-9a-z]+)/') FROM minion_task WHERE model LIKE '%/uploads/upl%'
    UNION ALL
    SELECT ltrim(substr(file ->> 'object', 5), '0')
    FROM minion_task, jsonb_array_elements(specification -> 'parameters' -> 'inputs') AS file WHERE kind = 'command'
)
SELECT upload_id FROM minion_upload
WHERE object_key <> '' AND created_at < now() - make_interval(secs => $1)
    AND ($3::bigint[] IS NULL OR upload_id = ANY ($3))
    AND NOT EXISTS (SELECT FROM named WHERE digits = ltrim(substr(split_part(object_key, '/', 2), 5), '0'))
ORDER BY upload_id LIMIT $2;

-- lock_uploads
-- Not those that a submission keeps right now: it may be about to name them.
SELECT upload_id FROM minion_upload WHERE upload_id = ANY ($1::bigint[]) AND object_key <> ''
ORDER BY upload_id FOR UPDATE SKIP LOCKED;

-- withdraw_uploads
-- Nobody can name them any more; the rows stay, without a key, until the objects are deleted.
UPDATE minion_upload SET object_key = '' WHERE upload_id = ANY ($1::bigint[]);

-- withdrawn_uploads
SELECT upload_id, filename FROM minion_upload WHERE object_key = '' ORDER BY upload_id LIMIT $1;

-- delete_uploads
DELETE FROM minion_upload WHERE upload_id IN (
    SELECT upload_id FROM minion_upload WHERE upload_id = ANY ($1::bigint[]) AND object_key = '' FOR UPDATE SKIP LOCKED
);

-- read_deployment
SELECT label, link_secret FROM minion_deployment;

-- insert_deployment
INSERT INTO minion_deployment (label, link_secret) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- note_serving
-- A server is there. After a gap of more than $1 seconds, silence is counted anew.
UPDATE minion_deployment SET
    serving_since = CASE WHEN server_seen_at < now() - make_interval(secs => $1) THEN now() ELSE serving_since END,
    server_seen_at = now();

-- leap_ids
-- The numbers of acquirements and uploads, by which objects are named, go on from no less than the time: a database that
-- was restored has forgotten numbers that executors and clients hold still, and must not give them to others. The unit is
-- 0.1 ms since 2020, so they would have to be drawn at 10,000 a second without a pause to run ahead of the clock. Where the
-- clock was set back they go on as they are. Who draws one at the same moment gets one from before or after the leap.
WITH clock AS (SELECT (extract(epoch FROM now() - timestamptz '2020-01-01 00:00:00+00') * 10000)::bigint AS ticks)
SELECT setval('minion_subtask_acquirement_acquirement_id_seq', ticks)
FROM clock JOIN minion_subtask_acquirement_acquirement_id_seq AS given ON given.last_value < ticks
UNION ALL
SELECT setval('minion_upload_upload_id_seq', ticks)
FROM clock JOIN minion_upload_upload_id_seq AS given ON given.last_value < ticks;

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
