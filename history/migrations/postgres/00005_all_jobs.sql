-- +goose Up

-- The name jobs becomes a view of all jobs, with the column names of the source document. Finished jobs keep their rows:
-- only the name of their table changes.
ALTER TABLE jobs RENAME TO finished_jobs;

-- NULL in rows that an earlier version wrote.
ALTER TABLE finished_jobs ADD COLUMN gpu_memory_mb INTEGER;
ALTER TABLE finished_jobs ADD COLUMN max_runtime_minutes INTEGER;
ALTER TABLE finished_jobs ADD COLUMN gang_scheduling BOOLEAN;
ALTER TABLE finished_jobs ADD COLUMN command TEXT COLLATE "C";
ALTER TABLE finished_jobs ADD COLUMN args TEXT COLLATE "C";
ALTER TABLE finished_jobs ADD COLUMN environment TEXT COLLATE "C";

-- Jobs that have not ended, and jobs that have ended and are not among the finished ones yet. The leader writes them.
CREATE TABLE live_jobs (
    job_id TEXT COLLATE "C" NOT NULL,
    accepted_revision BIGINT NOT NULL,
    run_revision BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    submitted_by TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    exit_code INTEGER,
    priority INTEGER NOT NULL,
    priority_class TEXT COLLATE "C" NOT NULL,
    members INTEGER NOT NULL,
    gpus_per_member INTEGER NOT NULL,
    gpu_milli INTEGER NOT NULL,
    gpu_model TEXT COLLATE "C" NOT NULL,
    cpu_cores INTEGER NOT NULL,
    memory_mb INTEGER NOT NULL,
    image TEXT COLLATE "C" NOT NULL,
    is_array BOOLEAN NOT NULL,
    array_of TEXT COLLATE "C" NOT NULL,
    array_index INTEGER NOT NULL,
    retry_of TEXT COLLATE "C" NOT NULL,
    accepted_at TIMESTAMPTZ NOT NULL,
    started_at TIMESTAMPTZ,
    finished_at TIMESTAMPTZ,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    preemptions INTEGER NOT NULL,
    gpu_memory_mb INTEGER,
    max_runtime_minutes INTEGER,
    gang_scheduling BOOLEAN,
    command TEXT COLLATE "C",
    args TEXT COLLATE "C",
    environment TEXT COLLATE "C",
    PRIMARY KEY (job_id, accepted_revision)
);

-- The columns of finished jobs come first and in their order: a server of an earlier version reads and writes them here.
-- Such a server calls itself ares, and must not see live jobs: it takes every job of this name for a finished one.
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
       CAST(NULL AS BIGINT), job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase,
       reason, outcome, exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model,
       cpu_cores, memory_mb, image, is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at,
       attempts, retries, preemptions, CAST(NULL AS BIGINT), CAST(NULL AS BYTEA), CAST(NULL AS BYTEA), gpu_memory_mb,
       max_runtime_minutes, gang_scheduling, command, args, environment, job_id AS id, tenant AS tenant_id,
       CASE phase WHEN 'succeeded' THEN 'completed' WHEN 'lost' THEN 'failed' WHEN 'retrying' THEN 'pending' ELSE phase END AS state,
       gpus_per_member AS gpu_count
FROM live_jobs l
WHERE NOT EXISTS (SELECT 1 FROM finished_jobs f WHERE f.job_id = l.job_id AND f.accepted_revision = l.accepted_revision)
  AND current_setting('application_name') <> 'ares';

-- +goose StatementBegin
CREATE FUNCTION write_finished_job() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM finished_jobs WHERE seq = OLD.seq;
        RETURN OLD;
    END IF;
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
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER jobs_written INSTEAD OF INSERT OR DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION write_finished_job();

-- A role that could read the table can read the view.
-- +goose StatementBegin
DO $$
DECLARE
    reader TEXT;
BEGIN
    FOR reader IN
        SELECT CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name = 'finished_jobs' AND privilege_type = 'SELECT' AND grantee <> current_user
    LOOP
        EXECUTE 'GRANT SELECT ON jobs TO ' || reader;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The same for tenants, whose table has only rows of the present.
ALTER TABLE tenants ADD COLUMN id TEXT COLLATE "C" GENERATED ALWAYS AS (tenant) STORED;
ALTER TABLE tenants ADD COLUMN max_gp_us INTEGER GENERATED ALWAYS AS (max_gpus) STORED;
ALTER TABLE tenants ADD COLUMN current_gp_us DOUBLE PRECISION GENERATED ALWAYS AS (gpus_in_use) STORED;

-- +goose Down

ALTER TABLE tenants DROP COLUMN current_gp_us;
ALTER TABLE tenants DROP COLUMN max_gp_us;
ALTER TABLE tenants DROP COLUMN id;
DROP VIEW jobs;
DROP FUNCTION write_finished_job;
DROP TABLE live_jobs;
ALTER TABLE finished_jobs DROP COLUMN environment;
ALTER TABLE finished_jobs DROP COLUMN args;
ALTER TABLE finished_jobs DROP COLUMN command;
ALTER TABLE finished_jobs DROP COLUMN gang_scheduling;
ALTER TABLE finished_jobs DROP COLUMN max_runtime_minutes;
ALTER TABLE finished_jobs DROP COLUMN gpu_memory_mb;
ALTER TABLE finished_jobs RENAME TO jobs;
