-- job_ends
-- How the last attempt of each of the jobs $2 of task $1 went: its output, else its latest fault; with whether the same job
-- has made another output somewhere in the project. Parts and faults are looked up apart: each has an index of its own.
WITH part AS (
    SELECT subtask_id, acquirement_id, object_key, sha256, size_bytes, detail, reason, message
    FROM minion_subtask_ledger
    WHERE task_id = $1 AND subtask_id = ANY ($2::int[]) AND entry = 'part' AND superseded_at IS NULL
), fault AS (
    SELECT DISTINCT ON (subtask_id) subtask_id, acquirement_id, object_key, sha256, size_bytes, detail, reason, message
    FROM minion_subtask_ledger
    WHERE task_id = $1 AND subtask_id = ANY ($2::int[]) AND entry = 'fault'
    ORDER BY subtask_id, ledger_id DESC
), told AS (
    SELECT * FROM part UNION ALL SELECT * FROM fault WHERE subtask_id NOT IN (SELECT subtask_id FROM part)
)
SELECT told.subtask_id, told.acquirement_id, told.object_key, told.sha256, told.size_bytes,
    coalesce(told.detail -> 'job', '{}') AS job, told.reason, told.message,
    told.sha256 IS NOT NULL AND EXISTS (
        SELECT FROM minion_subtask_ledger AS other JOIN minion_task AS task USING (task_id)
        WHERE other.detail -> 'job' ->> 'id' = told.detail -> 'job' ->> 'id' AND other.entry = 'part'
            AND (other.detail -> 'job') IS NOT NULL AND other.sha256 <> told.sha256
            AND (task.team, task.project) = (own.team, own.project)
    ) AS nondeterministic
FROM told CROSS JOIN (SELECT team, project FROM minion_task WHERE task_id = $1) AS own;
