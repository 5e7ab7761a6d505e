-- Dumped from a migrated database by minions.store.dump_schema; the migrations are what is applied.

CREATE TABLE minion_deployment (
    only_row boolean NOT NULL DEFAULT true,
    label text NOT NULL,
    link_secret bytea NOT NULL,
    server_seen_at timestamp with time zone NOT NULL DEFAULT now(),
    serving_since timestamp with time zone NOT NULL DEFAULT now(),
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_deployment_pkey PRIMARY KEY (only_row),
    CONSTRAINT minion_deployment_label_check CHECK ((label = ANY (ARRAY['production'::text, 'development'::text]))),
    CONSTRAINT minion_deployment_link_secret_check CHECK ((octet_length(link_secret) >= 32)),
    CONSTRAINT minion_deployment_only_row_check CHECK (only_row)
);
COMMENT ON COLUMN minion_deployment.serving_since IS 'Since when some server has answered without a gap: silence of an executor before that is not its own.';

CREATE TABLE minion_executor (
    executor_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    instance text NOT NULL,
    session uuid NOT NULL,
    name text NOT NULL,
    owner text NOT NULL DEFAULT ''::text,
    version text NOT NULL,
    token_id bigint,
    device jsonb NOT NULL DEFAULT '{}'::jsonb,
    kinds text[] NOT NULL,
    engines text[] NOT NULL,
    memory_mb integer,
    preferences text[] NOT NULL DEFAULT '{}'::text[],
    state text NOT NULL DEFAULT 'starting'::text,
    state_reason text NOT NULL DEFAULT ''::text,
    state_since timestamp with time zone NOT NULL DEFAULT now(),
    registered_at timestamp with time zone NOT NULL DEFAULT now(),
    last_seen_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_executor_pkey PRIMARY KEY (executor_id),
    CONSTRAINT minion_executor_instance_key UNIQUE (instance),
    CONSTRAINT minion_executor_token_id_fkey FOREIGN KEY (token_id) REFERENCES minion_token(token_id),
    CONSTRAINT minion_executor_state_check CHECK ((state = ANY (ARRAY['starting'::text, 'idle'::text, 'busy'::text, 'paused'::text, 'stopping'::text, 'offline'::text])))
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.05, fillfactor=50);
COMMENT ON COLUMN minion_executor.last_seen_at IS 'Not indexed, so that signs of life are HOT updates.';

CREATE TABLE minion_heartbeat (
    executor_id bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    state text NOT NULL,
    sample jsonb NOT NULL DEFAULT '{}'::jsonb,
    CONSTRAINT minion_heartbeat_executor_id_fkey FOREIGN KEY (executor_id) REFERENCES minion_executor(executor_id) ON DELETE CASCADE
);
CREATE INDEX minion_heartbeat_at ON public.minion_heartbeat USING brin (at);
CREATE INDEX minion_heartbeat_executor ON public.minion_heartbeat USING btree (executor_id, at);

CREATE TABLE minion_migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_migration_pkey PRIMARY KEY (number)
);

CREATE TABLE minion_subtask (
    task_id bigint NOT NULL,
    subtask_id integer NOT NULL,
    object text NOT NULL,
    object_etag text,
    object_bytes bigint NOT NULL,
    range_start bigint NOT NULL,
    range_end bigint,
    format jsonb NOT NULL,
    CONSTRAINT minion_subtask_pkey PRIMARY KEY (task_id, subtask_id),
    CONSTRAINT minion_subtask_task_id_fkey FOREIGN KEY (task_id) REFERENCES minion_task(task_id),
    CONSTRAINT minion_subtask_check CHECK ((range_end > range_start)),
    CONSTRAINT minion_subtask_range_start_check CHECK ((range_start >= 0)),
    CONSTRAINT minion_subtask_subtask_id_check CHECK ((subtask_id >= 0))
);

CREATE TABLE minion_subtask_acquirement (
    acquirement_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    team text NOT NULL,
    project text NOT NULL,
    task_name text NOT NULL,
    subtask_id integer NOT NULL,
    task_id bigint NOT NULL,
    executor_id bigint NOT NULL,
    attempt smallint NOT NULL,
    losses smallint NOT NULL,
    cursor bigint NOT NULL,
    acquired_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_subtask_acquirement_pkey PRIMARY KEY (acquirement_id),
    CONSTRAINT minion_subtask_acquirement_team_project_task_name_subtask_i_key UNIQUE (team, project, task_name, subtask_id)
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, fillfactor=70);
COMMENT ON TABLE minion_subtask_acquirement IS 'Who works on what; acquirement_id is the fence. No foreign keys: the inserting statement joins the rows itself.';
CREATE INDEX minion_subtask_acquirement_executor ON public.minion_subtask_acquirement USING btree (executor_id);
CREATE INDEX minion_subtask_acquirement_task ON public.minion_subtask_acquirement USING btree (task_id);

CREATE TABLE minion_subtask_ledger (
    ledger_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    task_id bigint NOT NULL,
    subtask_id integer NOT NULL,
    subtasks integer NOT NULL DEFAULT 1,
    entry text NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    executor_id bigint,
    acquirement_id bigint,
    attempt smallint NOT NULL DEFAULT 0,
    losses smallint NOT NULL DEFAULT 0,
    reason text NOT NULL DEFAULT ''::text,
    message text NOT NULL DEFAULT ''::text,
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
    CONSTRAINT minion_subtask_ledger_pkey PRIMARY KEY (ledger_id),
    CONSTRAINT minion_subtask_ledger_check CHECK (((entry = 'part'::text) = (part_start IS NOT NULL))),
    CONSTRAINT minion_subtask_ledger_check1 CHECK (((part_start IS NULL) OR (part_end >= part_start))),
    CONSTRAINT minion_subtask_ledger_check2 CHECK (((sha256 IS NULL) = (object_key IS NULL))),
    CONSTRAINT minion_subtask_ledger_check3 CHECK (((failed_rows >= 0) AND (failed_rows <= rows) AND (truncated_rows >= 0) AND (truncated_rows <= rows))),
    CONSTRAINT minion_subtask_ledger_check4 CHECK (((entry = 'part'::text) OR (rows = 0))),
    CONSTRAINT minion_subtask_ledger_check5 CHECK (((subtasks = 1) OR (entry = 'cancelled'::text))),
    CONSTRAINT minion_subtask_ledger_entry_check CHECK ((entry = ANY (ARRAY['part'::text, 'released'::text, 'lost'::text, 'fault'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT minion_subtask_ledger_subtasks_check CHECK ((subtasks >= 1))
);
COMMENT ON COLUMN minion_subtask_ledger.subtasks IS 'A cancelled entry stands for this many subtasks, from subtask_id on.';
CREATE INDEX minion_subtask_ledger_at ON public.minion_subtask_ledger USING brin (at);
CREATE UNIQUE INDEX minion_subtask_ledger_end ON public.minion_subtask_ledger USING btree (task_id, subtask_id) INCLUDE (entry, subtasks) WHERE (entry = ANY (ARRAY['done'::text, 'failed'::text, 'cancelled'::text]));
CREATE UNIQUE INDEX minion_subtask_ledger_part ON public.minion_subtask_ledger USING btree (task_id, subtask_id, part_start) INCLUDE (rows, failed_rows) WHERE (entry = 'part'::text);
CREATE INDEX minion_subtask_ledger_task ON public.minion_subtask_ledger USING btree (task_id, at, ledger_id);

CREATE TABLE minion_subtask_queue (
    range_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    lane text NOT NULL,
    priority smallint NOT NULL,
    task_id bigint NOT NULL,
    first_subtask integer NOT NULL,
    next_subtask integer NOT NULL,
    end_subtask integer NOT NULL,
    attempt smallint NOT NULL DEFAULT 0,
    losses smallint NOT NULL DEFAULT 0,
    cursor bigint,
    ready boolean NOT NULL,
    not_before timestamp with time zone,
    CONSTRAINT minion_subtask_queue_pkey PRIMARY KEY (range_id),
    CONSTRAINT minion_subtask_queue_task_id_fkey FOREIGN KEY (task_id) REFERENCES minion_task(task_id),
    CONSTRAINT minion_subtask_queue_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT minion_subtask_queue_check CHECK (((first_subtask <= next_subtask) AND (next_subtask < end_subtask))),
    CONSTRAINT minion_subtask_queue_check1 CHECK (((cursor IS NULL) OR (end_subtask = (first_subtask + 1)))),
    CONSTRAINT minion_subtask_queue_check2 CHECK ((NOT (ready AND (not_before IS NOT NULL)))),
    CONSTRAINT minion_subtask_queue_losses_check CHECK ((losses >= 0))
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, fillfactor=50);
COMMENT ON TABLE minion_subtask_queue IS 'What waits, as ranges [next_subtask, end_subtask) of subtasks.';
CREATE INDEX minion_subtask_queue_due ON public.minion_subtask_queue USING btree (not_before) WHERE (not_before IS NOT NULL);
CREATE INDEX minion_subtask_queue_lane ON public.minion_subtask_queue USING btree (lane, priority, task_id, first_subtask) WHERE ready;
CREATE INDEX minion_subtask_queue_task ON public.minion_subtask_queue USING btree (task_id, first_subtask);

CREATE TABLE minion_task (
    task_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    team text NOT NULL,
    project text NOT NULL,
    task_name text NOT NULL,
    kind text NOT NULL,
    engine text NOT NULL,
    model text NOT NULL,
    lane text NOT NULL,
    priority smallint NOT NULL DEFAULT 100,
    specification jsonb NOT NULL,
    pin jsonb,
    idempotency_key text,
    request_sha256 bytea NOT NULL,
    created_by text NOT NULL DEFAULT ''::text,
    state text NOT NULL DEFAULT 'submitted'::text,
    state_reason text NOT NULL DEFAULT ''::text,
    paused boolean NOT NULL DEFAULT false,
    subtask_count integer NOT NULL DEFAULT 0,
    split_position jsonb NOT NULL DEFAULT '{}'::jsonb,
    input_bytes bigint NOT NULL DEFAULT 0,
    totals jsonb,
    manifest_key text,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    CONSTRAINT minion_task_pkey PRIMARY KEY (task_id),
    CONSTRAINT minion_task_idempotency_key_key UNIQUE (idempotency_key),
    CONSTRAINT minion_task_team_project_task_name_key UNIQUE (team, project, task_name),
    CONSTRAINT minion_task_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))),
    CONSTRAINT minion_task_kind_check CHECK ((kind = ANY (ARRAY['embed'::text, 'complete'::text, 'command'::text]))),
    CONSTRAINT minion_task_priority_check CHECK (((priority >= 0) AND (priority <= 1000))),
    CONSTRAINT minion_task_state_check CHECK ((state = ANY (ARRAY['submitted'::text, 'splitting'::text, 'running'::text, 'finishing'::text, 'completed'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT minion_task_subtask_count_check CHECK ((subtask_count >= 0))
);
COMMENT ON COLUMN minion_task.totals IS 'Counts of an ended task, taken once from the ledger when it ended.';
CREATE INDEX minion_task_open ON public.minion_task USING btree (task_id) WHERE (state = ANY (ARRAY['submitted'::text, 'splitting'::text, 'running'::text, 'finishing'::text]));

CREATE TABLE minion_token (
    token_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    name text NOT NULL,
    scope text NOT NULL,
    teams text[],
    secret_sha256 bytea NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT minion_token_pkey PRIMARY KEY (token_id),
    CONSTRAINT minion_token_secret_sha256_key UNIQUE (secret_sha256),
    CONSTRAINT minion_token_scope_check CHECK ((scope = ANY (ARRAY['admin'::text, 'submit'::text, 'executor'::text]))),
    CONSTRAINT minion_token_secret_sha256_check CHECK ((octet_length(secret_sha256) = 32))
);

CREATE TABLE minion_upload (
    upload_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    filename text NOT NULL,
    size_bytes bigint NOT NULL,
    sha256 bytea,
    object_key text NOT NULL,
    token_id bigint,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_upload_pkey PRIMARY KEY (upload_id),
    CONSTRAINT minion_upload_token_id_fkey FOREIGN KEY (token_id) REFERENCES minion_token(token_id),
    CONSTRAINT minion_upload_sha256_check CHECK ((octet_length(sha256) = 32)),
    CONSTRAINT minion_upload_size_bytes_check CHECK ((size_bytes >= 0))
);
