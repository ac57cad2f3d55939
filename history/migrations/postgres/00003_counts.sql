-- +goose Up

-- Whoever writes now is waited for, and the next waits: each job is counted
-- below, or by the triggers.
LOCK TABLE jobs IN SHARE ROW EXCLUSIVE MODE;

-- How many jobs there are, elements of arrays left out: a list says how many
-- match, and does not count millions of rows for it.
CREATE TABLE job_counts (
    tenant       TEXT COLLATE "C" NOT NULL,
    queue        TEXT COLLATE "C" NOT NULL,
    submitted_by TEXT COLLATE "C" NOT NULL,
    phase        TEXT COLLATE "C" NOT NULL,
    jobs         BIGINT NOT NULL,
    PRIMARY KEY (tenant, queue, submitted_by, phase)
);
INSERT INTO job_counts SELECT tenant, queue, submitted_by, phase, COUNT(*) FROM jobs WHERE array_of = '' GROUP BY tenant, queue, submitted_by, phase;

-- The database counts, not the server that writes: one from before may write too.
-- +goose StatementBegin
CREATE FUNCTION count_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        UPDATE job_counts c SET jobs = c.jobs - g.jobs
        FROM (SELECT tenant, queue, submitted_by, phase, COUNT(*) AS jobs FROM gone WHERE array_of = '' GROUP BY tenant, queue, submitted_by, phase) g
        WHERE c.tenant = g.tenant AND c.queue = g.queue AND c.submitted_by = g.submitted_by AND c.phase = g.phase;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO job_counts
        SELECT tenant, queue, submitted_by, phase, COUNT(*) FROM come WHERE array_of = ''
        GROUP BY tenant, queue, submitted_by, phase ORDER BY tenant, queue, submitted_by, phase
        ON CONFLICT (tenant, queue, submitted_by, phase) DO UPDATE SET jobs = job_counts.jobs + excluded.jobs;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM job_counts c USING gone g
        WHERE c.tenant = g.tenant AND c.queue = g.queue AND c.submitted_by = g.submitted_by AND c.phase = g.phase AND c.jobs = 0;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER jobs_count_added AFTER INSERT ON jobs REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();
CREATE TRIGGER jobs_count_removed AFTER DELETE ON jobs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();
CREATE TRIGGER jobs_count_changed AFTER UPDATE ON jobs REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION count_jobs();

-- +goose Down

DROP TRIGGER jobs_count_changed ON jobs;
DROP TRIGGER jobs_count_removed ON jobs;
DROP TRIGGER jobs_count_added ON jobs;
DROP FUNCTION count_jobs;
DROP TABLE job_counts;
