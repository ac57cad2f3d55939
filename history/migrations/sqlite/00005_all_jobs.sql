-- +goose Up

-- The name jobs becomes a view of all jobs, with the column names of the source document. Finished jobs keep their rows:
-- only the name of their table changes.
ALTER TABLE jobs RENAME TO finished_jobs;

-- NULL in rows that an earlier version wrote.
ALTER TABLE finished_jobs ADD COLUMN gpu_memory_mb INTEGER;
ALTER TABLE finished_jobs ADD COLUMN max_runtime_minutes INTEGER;
ALTER TABLE finished_jobs ADD COLUMN gang_scheduling BOOLEAN;
ALTER TABLE finished_jobs ADD COLUMN command TEXT;
ALTER TABLE finished_jobs ADD COLUMN args TEXT;
ALTER TABLE finished_jobs ADD COLUMN environment TEXT;

-- Jobs that have not ended, and jobs that have ended and are not among the finished ones yet. The leader writes them.
CREATE TABLE live_jobs (
    job_id TEXT NOT NULL,
    accepted_revision INTEGER NOT NULL,
    run_revision INTEGER NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    submitted_by TEXT NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT NOT NULL,
    outcome TEXT NOT NULL,
    exit_code INTEGER,
    priority INTEGER NOT NULL,
    priority_class TEXT NOT NULL,
    members INTEGER NOT NULL,
    gpus_per_member INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    gpu_model TEXT NOT NULL,
    cpu_cores INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    image TEXT NOT NULL,
    is_array BOOLEAN NOT NULL,
    array_of TEXT NOT NULL,
    array_index INTEGER NOT NULL,
    retry_of TEXT NOT NULL,
    accepted_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    preemptions INTEGER NOT NULL,
    gpu_memory_mb INTEGER,
    max_runtime_minutes INTEGER,
    gang_scheduling BOOLEAN,
    command TEXT,
    args TEXT,
    environment TEXT,
    PRIMARY KEY (job_id, accepted_revision)
) WITHOUT ROWID;

-- The columns of finished jobs come first and in their order: a server of an earlier version reads and writes them here.
CREATE VIEW jobs AS
SELECT
       seq, job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome,
       exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb,
       image, is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries,
       preemptions, gpu_milliseconds, digest, record, gpu_memory_mb, max_runtime_minutes, gang_scheduling, command,
       args, environment, job_id AS id, tenant AS tenant_id,
       CASE phase WHEN 'succeeded' THEN 'completed' WHEN 'lost' THEN 'failed' WHEN 'retrying' THEN 'pending' ELSE phase END AS state,
       gpus_per_member AS gpu_count
FROM finished_jobs
UNION ALL
SELECT
       NULL, job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome,
       exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb,
       image, is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries,
       preemptions, NULL, NULL, NULL, gpu_memory_mb, max_runtime_minutes, gang_scheduling, command, args,
       environment, job_id AS id, tenant AS tenant_id,
       CASE phase WHEN 'succeeded' THEN 'completed' WHEN 'lost' THEN 'failed' WHEN 'retrying' THEN 'pending' ELSE phase END AS state,
       gpus_per_member AS gpu_count
FROM live_jobs l
WHERE NOT EXISTS (SELECT 1 FROM finished_jobs f WHERE f.job_id = l.job_id AND f.accepted_revision = l.accepted_revision);

-- +goose StatementBegin
CREATE TRIGGER jobs_added INSTEAD OF INSERT ON jobs BEGIN
    INSERT INTO finished_jobs (
        seq, job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome,
        exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb,
        image, is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries,
        preemptions, gpu_milliseconds, digest, record
    ) VALUES (
        NEW.seq, NEW.job_id, NEW.accepted_revision, NEW.run_revision, NEW.name, NEW.tenant, NEW.queue,
        NEW.submitted_by, NEW.phase, NEW.reason, NEW.outcome, NEW.exit_code, NEW.priority, NEW.priority_class,
        NEW.members, NEW.gpus_per_member, NEW.gpu_milli, NEW.gpu_model, NEW.cpu_cores, NEW.memory_mb, NEW.image,
        NEW.is_array, NEW.array_of, NEW.array_index, NEW.retry_of, NEW.accepted_at, NEW.started_at, NEW.finished_at,
        NEW.attempts, NEW.retries, NEW.preemptions, NEW.gpu_milliseconds, NEW.digest, NEW.record
    );
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER jobs_removed INSTEAD OF DELETE ON jobs BEGIN
    DELETE FROM finished_jobs WHERE seq = OLD.seq;
END;
-- +goose StatementEnd

-- The same for tenants, whose table has only rows of the present.
ALTER TABLE tenants ADD COLUMN id TEXT GENERATED ALWAYS AS (tenant) VIRTUAL;
ALTER TABLE tenants ADD COLUMN max_gp_us INTEGER GENERATED ALWAYS AS (max_gpus) VIRTUAL;
ALTER TABLE tenants ADD COLUMN current_gp_us REAL GENERATED ALWAYS AS (gpus_in_use) VIRTUAL;

-- +goose Down

ALTER TABLE tenants DROP COLUMN current_gp_us;
ALTER TABLE tenants DROP COLUMN max_gp_us;
ALTER TABLE tenants DROP COLUMN id;
DROP VIEW jobs;
DROP TABLE live_jobs;
ALTER TABLE finished_jobs DROP COLUMN environment;
ALTER TABLE finished_jobs DROP COLUMN args;
ALTER TABLE finished_jobs DROP COLUMN command;
ALTER TABLE finished_jobs DROP COLUMN gang_scheduling;
ALTER TABLE finished_jobs DROP COLUMN max_runtime_minutes;
ALTER TABLE finished_jobs DROP COLUMN gpu_memory_mb;
ALTER TABLE finished_jobs RENAME TO jobs;
