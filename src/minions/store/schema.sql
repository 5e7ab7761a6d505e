-- Dumped from a migrated database by minions.store.dump_schema; the migrations are what is applied.

CREATE TABLE minion_deployment (
    only_row boolean NOT NULL DEFAULT true,
    label text NOT NULL,
    link_secret bytea NOT NULL,
    server_seen_at timestamp with time zone NOT NULL DEFAULT now(),
    serving_since timestamp with time zone NOT NULL DEFAULT now(),
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    lease_seconds double precision,
    offline_seconds double precision,
    CONSTRAINT minion_deployment_pkey PRIMARY KEY (only_row),
    CONSTRAINT minion_deployment_label_check CHECK ((label = ANY (ARRAY['production'::text, 'development'::text]))),
    CONSTRAINT minion_deployment_link_secret_check CHECK ((octet_length(link_secret) >= 32)),
    CONSTRAINT minion_deployment_only_row_check CHECK (only_row)
);
COMMENT ON COLUMN minion_deployment.serving_since IS 'Since when some server has answered without a gap: silence of an executor before that is not its own.';
COMMENT ON COLUMN minion_deployment.lease_seconds IS 'An executor that holds subtasks and is silent for so long is told as offline; null: no server has said it yet.';
COMMENT ON COLUMN minion_deployment.offline_seconds IS 'The same of one that holds nothing.';

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
    teams text[],
    leaves jsonb NOT NULL DEFAULT '{}'::jsonb,
    CONSTRAINT minion_executor_pkey PRIMARY KEY (executor_id),
    CONSTRAINT minion_executor_instance_key UNIQUE (instance),
    CONSTRAINT minion_executor_token_id_fkey FOREIGN KEY (token_id) REFERENCES minion_token(token_id),
    CONSTRAINT minion_executor_state_check CHECK ((state = ANY (ARRAY['starting'::text, 'idle'::text, 'busy'::text, 'paused'::text, 'stopping'::text, 'offline'::text])))
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.05, fillfactor=50);
COMMENT ON COLUMN minion_executor.last_seen_at IS 'Not indexed, so that signs of life are HOT updates.';
COMMENT ON COLUMN minion_executor.teams IS 'Teams that it works for; null: all.';
COMMENT ON COLUMN minion_executor.leaves IS 'Tasks that it leaves alone for now, each with the reason, as it said last.';

CREATE TABLE minion_heartbeat (
    executor_id bigint NOT NULL,
    at timestamp with time zone NOT NULL DEFAULT now(),
    state text NOT NULL,
    sample jsonb NOT NULL DEFAULT '{}'::jsonb,
    CONSTRAINT minion_heartbeat_executor_id_fkey FOREIGN KEY (executor_id) REFERENCES minion_executor(executor_id) ON DELETE CASCADE
);
CREATE INDEX minion_heartbeat_at ON public.minion_heartbeat USING brin (at) WITH (autosummarize='on');
CREATE INDEX minion_heartbeat_executor ON public.minion_heartbeat USING btree (executor_id, at);

CREATE TABLE minion_migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_migration_pkey PRIMARY KEY (number)
);

CREATE TABLE minion_sign_in (
    key_sha256 bytea NOT NULL,
    token_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT minion_sign_in_pkey PRIMARY KEY (key_sha256),
    CONSTRAINT minion_sign_in_token_id_fkey FOREIGN KEY (token_id) REFERENCES minion_token(token_id),
    CONSTRAINT minion_sign_in_key_sha256_check CHECK ((octet_length(key_sha256) = 32))
);
COMMENT ON TABLE minion_sign_in IS 'Links that sign a browser in once, in the name of a token; deleted by their use.';

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
    avoid bigint[],
    waited_seconds real,
    retry text,
    second_id bigint,
    second_executor_id bigint,
    second_since timestamp with time zone,
    CONSTRAINT minion_subtask_acquirement_pkey PRIMARY KEY (acquirement_id),
    CONSTRAINT minion_subtask_acquirement_team_project_task_name_subtask_i_key UNIQUE (team, project, task_name, subtask_id),
    CONSTRAINT minion_subtask_acquirement_elsewhere_check CHECK ((second_executor_id <> executor_id)),
    CONSTRAINT minion_subtask_acquirement_retry_check CHECK ((retry = ANY (ARRAY['rows'::text, 'subtask'::text]))),
    CONSTRAINT minion_subtask_acquirement_second_check CHECK ((((second_id IS NULL) = (second_executor_id IS NULL)) AND ((second_id IS NULL) OR (second_since IS NOT NULL))))
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, fillfactor=70);
COMMENT ON TABLE minion_subtask_acquirement IS 'Who works on what; acquirement_id is the fence. No foreign keys: the inserting statement joins the rows itself.';
COMMENT ON COLUMN minion_subtask_acquirement.second_id IS 'The fence of a second start, drawn from the sequence of acquirement_id: it becomes that when the second start takes over.';
COMMENT ON COLUMN minion_subtask_acquirement.second_since IS 'When it was started a second time; it stays when that start has ended, so that there is no third one.';
CREATE INDEX minion_subtask_acquirement_executor ON public.minion_subtask_acquirement USING btree (executor_id);
CREATE UNIQUE INDEX minion_subtask_acquirement_second ON public.minion_subtask_acquirement USING btree (second_id) WHERE (second_id IS NOT NULL);
CREATE INDEX minion_subtask_acquirement_second_executor ON public.minion_subtask_acquirement USING btree (second_executor_id) WHERE (second_executor_id IS NOT NULL);
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
    waited_seconds real,
    superseded_at timestamp with time zone,
    kept_rows bigint NOT NULL DEFAULT 0,
    CONSTRAINT minion_subtask_ledger_pkey PRIMARY KEY (ledger_id),
    CONSTRAINT minion_subtask_ledger_check CHECK (((entry = 'part'::text) = (part_start IS NOT NULL))),
    CONSTRAINT minion_subtask_ledger_check1 CHECK (((part_start IS NULL) OR (part_end >= part_start))),
    CONSTRAINT minion_subtask_ledger_check2 CHECK (((sha256 IS NULL) = (object_key IS NULL))),
    CONSTRAINT minion_subtask_ledger_check3 CHECK (((failed_rows >= 0) AND (failed_rows <= rows) AND (truncated_rows >= 0) AND (truncated_rows <= rows))),
    CONSTRAINT minion_subtask_ledger_check4 CHECK (((entry = 'part'::text) OR (rows = 0))),
    CONSTRAINT minion_subtask_ledger_check5 CHECK (((subtasks = 1) OR (entry = ANY (ARRAY['cancelled'::text, 'retried'::text])))),
    CONSTRAINT minion_subtask_ledger_check6 CHECK ((kept_rows <= rows)),
    CONSTRAINT minion_subtask_ledger_check7 CHECK (((superseded_at IS NULL) OR (entry = ANY (ARRAY['part'::text, 'done'::text, 'failed'::text, 'cancelled'::text])))),
    CONSTRAINT minion_subtask_ledger_entry_check CHECK ((entry = ANY (ARRAY['part'::text, 'second_start'::text, 'released'::text, 'lost'::text, 'fault'::text, 'retried'::text, 'done'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT minion_subtask_ledger_kept_rows_check CHECK ((kept_rows >= 0)),
    CONSTRAINT minion_subtask_ledger_subtasks_check CHECK ((subtasks >= 1))
);
COMMENT ON COLUMN minion_subtask_ledger.subtasks IS 'A cancelled or retried entry stands for this many subtasks, from subtask_id on.';
COMMENT ON COLUMN minion_subtask_ledger.waited_seconds IS 'How long the subtask had waited when it was acquired; in the entry with which that acquirement ended.';
COMMENT ON COLUMN minion_subtask_ledger.superseded_at IS 'Of a part: another part replaced it. Of an end: the subtask was retried. Counts and results leave such entries out.';
COMMENT ON COLUMN minion_subtask_ledger.kept_rows IS 'Rows taken over from the part that this one replaced: they were not run.';
CREATE INDEX minion_subtask_ledger_at ON public.minion_subtask_ledger USING brin (at) WITH (autosummarize='on');
CREATE UNIQUE INDEX minion_subtask_ledger_end ON public.minion_subtask_ledger USING btree (task_id, subtask_id) INCLUDE (entry, subtasks) WHERE ((entry = ANY (ARRAY['done'::text, 'failed'::text, 'cancelled'::text])) AND (superseded_at IS NULL));
CREATE INDEX minion_subtask_ledger_failed_part ON public.minion_subtask_ledger USING btree (task_id, subtask_id, part_start) WHERE ((entry = 'part'::text) AND (failed_rows > 0));
CREATE INDEX minion_subtask_ledger_failed_rows_at ON public.minion_subtask_ledger USING btree (at) WHERE ((entry = 'part'::text) AND (failed_rows > 0));
CREATE INDEX minion_subtask_ledger_job ON public.minion_subtask_ledger USING btree ((((detail -> 'job'::text) ->> 'id'::text))) WHERE ((entry = 'part'::text) AND ((detail -> 'job'::text) IS NOT NULL));
CREATE UNIQUE INDEX minion_subtask_ledger_part ON public.minion_subtask_ledger USING btree (task_id, subtask_id, part_start) INCLUDE (rows, failed_rows) WHERE ((entry = 'part'::text) AND (superseded_at IS NULL));
CREATE INDEX minion_subtask_ledger_set_aside ON public.minion_subtask_ledger USING btree (task_id, subtask_id) INCLUDE (entry, subtasks) WHERE (entry = ANY (ARRAY['failed'::text, 'cancelled'::text]));
CREATE INDEX minion_subtask_ledger_task ON public.minion_subtask_ledger USING btree (task_id, at, ledger_id);
CREATE INDEX minion_subtask_ledger_trouble ON public.minion_subtask_ledger USING btree (task_id, at, ledger_id) WHERE (entry = ANY (ARRAY['released'::text, 'lost'::text, 'fault'::text, 'failed'::text, 'cancelled'::text]));
CREATE INDEX minion_subtask_ledger_trouble_at ON public.minion_subtask_ledger USING btree (at) WHERE (entry = ANY (ARRAY['released'::text, 'lost'::text, 'fault'::text, 'failed'::text]));

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
    avoid bigint[],
    avoid_until timestamp with time zone,
    waiting_since timestamp with time zone NOT NULL DEFAULT now(),
    retry text,
    waits_for bigint[],
    CONSTRAINT minion_subtask_queue_pkey PRIMARY KEY (range_id),
    CONSTRAINT minion_subtask_queue_task_id_fkey FOREIGN KEY (task_id) REFERENCES minion_task(task_id),
    CONSTRAINT minion_subtask_queue_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT minion_subtask_queue_check CHECK (((first_subtask <= next_subtask) AND (next_subtask < end_subtask))),
    CONSTRAINT minion_subtask_queue_check1 CHECK (((cursor IS NULL) OR (end_subtask = (first_subtask + 1)))),
    CONSTRAINT minion_subtask_queue_check2 CHECK ((NOT (ready AND (not_before IS NOT NULL)))),
    CONSTRAINT minion_subtask_queue_check3 CHECK (((avoid IS NULL) = (avoid_until IS NULL))),
    CONSTRAINT minion_subtask_queue_losses_check CHECK ((losses >= 0)),
    CONSTRAINT minion_subtask_queue_retry_check CHECK ((retry = ANY (ARRAY['rows'::text, 'subtask'::text]))),
    CONSTRAINT minion_subtask_queue_waits_for_check CHECK (((waits_for IS NULL) OR (NOT (not_before IS DISTINCT FROM 'infinity'::timestamp with time zone))))
) WITH (autovacuum_vacuum_cost_delay=0, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, fillfactor=50);
COMMENT ON TABLE minion_subtask_queue IS 'What waits, as ranges [next_subtask, end_subtask) of subtasks.';
COMMENT ON COLUMN minion_subtask_queue.avoid IS 'Executors that tried it and could not: others come first, until avoid_until.';
COMMENT ON COLUMN minion_subtask_queue.waiting_since IS 'Since when it can be handed out: a pause, or the delay after a fault, is no waiting.';
COMMENT ON COLUMN minion_subtask_queue.retry IS 'rows: the subtask was done, and only failed rows of its parts are run again. subtask: it was set aside or cancelled, so the rest of its range is run too.';
COMMENT ON COLUMN minion_subtask_queue.waits_for IS 'Acquirements of minion_subtask_stopping under which the same job may still run; when none is left, it is handed out.';
CREATE INDEX minion_subtask_queue_due ON public.minion_subtask_queue USING btree (not_before) WHERE (not_before IS NOT NULL);
CREATE INDEX minion_subtask_queue_lane ON public.minion_subtask_queue USING btree (lane, priority, task_id, first_subtask) WHERE ready;
CREATE INDEX minion_subtask_queue_task ON public.minion_subtask_queue USING btree (task_id, first_subtask);
CREATE INDEX minion_subtask_queue_waits_for ON public.minion_subtask_queue USING btree (task_id) WHERE (waits_for IS NOT NULL);

CREATE TABLE minion_subtask_stopping (
    acquirement_id bigint NOT NULL,
    executor_id bigint NOT NULL,
    task_id bigint NOT NULL,
    subtask_id integer NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    cancelled_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT minion_subtask_stopping_pkey PRIMARY KEY (acquirement_id)
);
COMMENT ON TABLE minion_subtask_stopping IS 'Cancelled jobs of tasks of commands, each until the executor that held it says that it does not run any more.';
CREATE INDEX minion_subtask_stopping_executor ON public.minion_subtask_stopping USING btree (executor_id);

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
    weight_bytes bigint,
    retries smallint NOT NULL DEFAULT 0,
    retry_codes text[],
    keeps_owner boolean NOT NULL DEFAULT false,
    second_start boolean NOT NULL DEFAULT false,
    retried_at timestamp with time zone,
    earlier_seconds double precision DEFAULT 0,
    CONSTRAINT minion_task_pkey PRIMARY KEY (task_id),
    CONSTRAINT minion_task_idempotency_key_key UNIQUE (idempotency_key),
    CONSTRAINT minion_task_team_project_task_name_key UNIQUE (team, project, task_name),
    CONSTRAINT minion_task_check CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))),
    CONSTRAINT minion_task_kind_check CHECK ((kind = ANY (ARRAY['embed'::text, 'complete'::text, 'command'::text]))),
    CONSTRAINT minion_task_priority_check CHECK (((priority >= 0) AND (priority <= 1000))),
    CONSTRAINT minion_task_retries_check CHECK ((retries >= 0)),
    CONSTRAINT minion_task_state_check CHECK ((state = ANY (ARRAY['submitted'::text, 'splitting'::text, 'running'::text, 'finishing'::text, 'completed'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT minion_task_subtask_count_check CHECK ((subtask_count >= 0)),
    CONSTRAINT minion_task_weight_bytes_check CHECK ((weight_bytes > 0))
);
COMMENT ON COLUMN minion_task.totals IS 'Counts of an ended task, taken once from the ledger when it ended.';
COMMENT ON COLUMN minion_task.weight_bytes IS 'Of its model, as measured by the executor that made the first part.';
COMMENT ON COLUMN minion_task.retry_codes IS 'Which failed rows the last retry runs again; null: all.';
COMMENT ON COLUMN minion_task.keeps_owner IS 'What an executor holds of it stays its own when it falls silent: it may be running it still.';
COMMENT ON COLUMN minion_task.second_start IS 'What runs longest of it may be started a second time when nothing of it waits.';
COMMENT ON COLUMN minion_task.retried_at IS 'When it was retried last.';
COMMENT ON COLUMN minion_task.earlier_seconds IS 'How long its runs before that took together; null: not known, as it was retried before this was noted.';
CREATE INDEX minion_task_keeps_owner ON public.minion_task USING btree (task_id) WHERE (keeps_owner AND (ended_at IS NULL));
CREATE INDEX minion_task_open ON public.minion_task USING btree (task_id) WHERE (state = ANY (ARRAY['submitted'::text, 'splitting'::text, 'running'::text, 'finishing'::text]));
CREATE INDEX minion_task_second_start ON public.minion_task USING btree (task_id) WHERE (second_start AND (ended_at IS NULL));
CREATE INDEX minion_task_weights ON public.minion_task USING btree (model, task_id) WHERE (weight_bytes IS NOT NULL);

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
    CONSTRAINT minion_token_scope_check CHECK ((scope = ANY (ARRAY['admin'::text, 'submit'::text, 'executor'::text, 'metrics'::text]))),
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
