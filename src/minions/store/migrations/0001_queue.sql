-- The seven tables that hold all state of tasks, and three beside them (tokens, uploads, the deployment).
-- Where a subtask stands says what state it is in: a range of the queue, an acquirement, or an end in the ledger.

CREATE TABLE minion_deployment (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    label text NOT NULL CHECK (label IN ('production', 'development')),
    link_secret bytea NOT NULL CHECK (octet_length(link_secret) >= 32),
    server_seen_at timestamptz NOT NULL DEFAULT now(),
    serving_since timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN minion_deployment.serving_since IS
    'Since when some server has answered without a gap: silence of an executor before that is not its own.';

CREATE TABLE minion_token (
    token_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    scope text NOT NULL CHECK (scope IN ('admin', 'submit', 'executor')),
    teams text[],
    secret_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(secret_sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz
);

CREATE TABLE minion_upload (
    upload_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    filename text NOT NULL,
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    sha256 bytea CHECK (octet_length(sha256) = 32),
    object_key text NOT NULL,
    token_id bigint REFERENCES minion_token,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE minion_executor (
    executor_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL UNIQUE,
    session uuid NOT NULL,
    name text NOT NULL,
    owner text NOT NULL DEFAULT '',
    version text NOT NULL,
    token_id bigint REFERENCES minion_token,
    device jsonb NOT NULL DEFAULT '{}',
    kinds text[] NOT NULL,
    engines text[] NOT NULL,
    memory_mb int,
    preferences text[] NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'starting'
        CHECK (state IN ('starting', 'idle', 'busy', 'paused', 'stopping', 'offline')),
    state_reason text NOT NULL DEFAULT '',
    state_since timestamptz NOT NULL DEFAULT now(),
    registered_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
COMMENT ON COLUMN minion_executor.last_seen_at IS 'Not indexed, so that signs of life are HOT updates.';

CREATE TABLE minion_heartbeat (
    executor_id bigint NOT NULL REFERENCES minion_executor ON DELETE CASCADE,
    at timestamptz NOT NULL DEFAULT now(),
    state text NOT NULL,
    sample jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX minion_heartbeat_executor ON minion_heartbeat (executor_id, at);
CREATE INDEX minion_heartbeat_at ON minion_heartbeat USING brin (at);

CREATE TABLE minion_task (
    task_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    project text NOT NULL,
    task_name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('embed', 'complete', 'command')),
    engine text NOT NULL,
    model text NOT NULL,
    lane text NOT NULL,
    priority smallint NOT NULL DEFAULT 100 CHECK (priority BETWEEN 0 AND 1000),
    specification jsonb NOT NULL,
    pin jsonb,
    idempotency_key text UNIQUE,
    request_sha256 bytea NOT NULL,
    created_by text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'submitted'
        CHECK (state IN ('submitted', 'splitting', 'running', 'finishing', 'completed', 'failed', 'cancelled')),
    state_reason text NOT NULL DEFAULT '',
    paused boolean NOT NULL DEFAULT false,
    subtask_count int NOT NULL DEFAULT 0 CHECK (subtask_count >= 0),
    split_position jsonb NOT NULL DEFAULT '{}',
    input_bytes bigint NOT NULL DEFAULT 0,
    totals jsonb,
    manifest_key text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    UNIQUE (team, project, task_name),
    CHECK ((ended_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled')))
);
COMMENT ON COLUMN minion_task.totals IS 'Counts of an ended task, taken once from the ledger when it ended.';
CREATE INDEX minion_task_open ON minion_task (task_id)
    WHERE state IN ('submitted', 'splitting', 'running', 'finishing');

CREATE TABLE minion_subtask (
    task_id bigint NOT NULL REFERENCES minion_task,
    subtask_id int NOT NULL CHECK (subtask_id >= 0),
    object text NOT NULL,
    object_etag text,
    object_bytes bigint NOT NULL,
    range_start bigint NOT NULL CHECK (range_start >= 0),
    range_end bigint CHECK (range_end > range_start),
    format jsonb NOT NULL,
    PRIMARY KEY (task_id, subtask_id)
);

CREATE TABLE minion_subtask_queue (
    range_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane text NOT NULL,
    priority smallint NOT NULL,
    task_id bigint NOT NULL REFERENCES minion_task,
    first_subtask int NOT NULL,
    next_subtask int NOT NULL,
    end_subtask int NOT NULL,
    attempt smallint NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    losses smallint NOT NULL DEFAULT 0 CHECK (losses >= 0),
    cursor bigint,
    ready boolean NOT NULL,
    not_before timestamptz,
    CHECK (first_subtask <= next_subtask AND next_subtask < end_subtask),
    CHECK (cursor IS NULL OR end_subtask = first_subtask + 1),
    CHECK (NOT (ready AND not_before IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE minion_subtask_queue IS 'What waits, as ranges [next_subtask, end_subtask) of subtasks.';
CREATE INDEX minion_subtask_queue_lane ON minion_subtask_queue (lane, priority, task_id, first_subtask) WHERE ready;
CREATE INDEX minion_subtask_queue_task ON minion_subtask_queue (task_id, first_subtask);
CREATE INDEX minion_subtask_queue_due ON minion_subtask_queue (not_before) WHERE not_before IS NOT NULL;

CREATE TABLE minion_subtask_acquirement (
    acquirement_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    team text NOT NULL,
    project text NOT NULL,
    task_name text NOT NULL,
    subtask_id int NOT NULL,
    task_id bigint NOT NULL,
    executor_id bigint NOT NULL,
    attempt smallint NOT NULL,
    losses smallint NOT NULL,
    cursor bigint NOT NULL,
    acquired_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (team, project, task_name, subtask_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE minion_subtask_acquirement IS
    'Who works on what; acquirement_id is the fence. No foreign keys: the inserting statement joins the rows itself.';
CREATE INDEX minion_subtask_acquirement_executor ON minion_subtask_acquirement (executor_id);
CREATE INDEX minion_subtask_acquirement_task ON minion_subtask_acquirement (task_id);

CREATE TABLE minion_subtask_ledger (
    ledger_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    subtask_id int NOT NULL,
    subtasks int NOT NULL DEFAULT 1 CHECK (subtasks >= 1),
    entry text NOT NULL CHECK (entry IN ('part', 'released', 'lost', 'fault', 'done', 'failed', 'cancelled')),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    executor_id bigint,
    acquirement_id bigint,
    attempt smallint NOT NULL DEFAULT 0,
    losses smallint NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT '',
    message text NOT NULL DEFAULT '',
    part_start bigint,
    part_end bigint,
    rows bigint NOT NULL DEFAULT 0,
    failed_rows bigint NOT NULL DEFAULT 0,
    truncated_rows bigint NOT NULL DEFAULT 0,
    object_key text,
    sha256 bytea,
    size_bytes bigint NOT NULL DEFAULT 0,
    input_bytes bigint NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    seconds real NOT NULL DEFAULT 0,
    detail jsonb,
    CHECK ((entry = 'part') = (part_start IS NOT NULL)),
    CHECK (part_start IS NULL OR part_end >= part_start),
    CHECK ((sha256 IS NULL) = (object_key IS NULL)),
    CHECK (failed_rows >= 0 AND failed_rows <= rows AND truncated_rows >= 0 AND truncated_rows <= rows),
    CHECK (entry = 'part' OR rows = 0),
    CHECK (subtasks = 1 OR entry = 'cancelled')
);
COMMENT ON COLUMN minion_subtask_ledger.subtasks IS 'A cancelled entry stands for this many subtasks, from subtask_id on.';
CREATE UNIQUE INDEX minion_subtask_ledger_part ON minion_subtask_ledger (task_id, subtask_id, part_start)
    INCLUDE (rows, failed_rows) WHERE entry = 'part';
CREATE UNIQUE INDEX minion_subtask_ledger_end ON minion_subtask_ledger (task_id, subtask_id)
    INCLUDE (entry, subtasks) WHERE entry IN ('done', 'failed', 'cancelled');
CREATE INDEX minion_subtask_ledger_task ON minion_subtask_ledger (task_id, at, ledger_id);
CREATE INDEX minion_subtask_ledger_at ON minion_subtask_ledger USING brin (at);

-- The two tables that are deleted from in the hot path would bloat under the defaults.
ALTER TABLE minion_subtask_queue SET
    (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE minion_subtask_acquirement SET
    (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE minion_executor SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
