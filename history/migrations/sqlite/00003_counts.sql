-- +goose Up

-- How many jobs there are, elements of arrays left out: a list says how many
-- match, and does not count millions of rows for it.
CREATE TABLE job_counts (
    tenant       TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    submitted_by TEXT    NOT NULL,
    phase        TEXT    NOT NULL,
    jobs         INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue, submitted_by, phase)
) WITHOUT ROWID;
INSERT INTO job_counts SELECT tenant, queue, submitted_by, phase, COUNT(*) FROM jobs WHERE array_of = '' GROUP BY tenant, queue, submitted_by, phase;

-- The database counts, not the server that writes: one from before may write too.
-- +goose StatementBegin
CREATE TRIGGER jobs_count_added AFTER INSERT ON jobs WHEN NEW.array_of = '' BEGIN
    INSERT INTO job_counts VALUES (NEW.tenant, NEW.queue, NEW.submitted_by, NEW.phase, 1)
    ON CONFLICT (tenant, queue, submitted_by, phase) DO UPDATE SET jobs = jobs + 1;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER jobs_count_removed AFTER DELETE ON jobs WHEN OLD.array_of = '' BEGIN
    UPDATE job_counts SET jobs = jobs - 1
    WHERE tenant = OLD.tenant AND queue = OLD.queue AND submitted_by = OLD.submitted_by AND phase = OLD.phase;
    DELETE FROM job_counts
    WHERE tenant = OLD.tenant AND queue = OLD.queue AND submitted_by = OLD.submitted_by AND phase = OLD.phase AND jobs = 0;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER jobs_count_left AFTER UPDATE OF tenant, queue, submitted_by, phase, array_of ON jobs WHEN OLD.array_of = '' BEGIN
    UPDATE job_counts SET jobs = jobs - 1
    WHERE tenant = OLD.tenant AND queue = OLD.queue AND submitted_by = OLD.submitted_by AND phase = OLD.phase;
    DELETE FROM job_counts
    WHERE tenant = OLD.tenant AND queue = OLD.queue AND submitted_by = OLD.submitted_by AND phase = OLD.phase AND jobs = 0;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER jobs_count_came AFTER UPDATE OF tenant, queue, submitted_by, phase, array_of ON jobs WHEN NEW.array_of = '' BEGIN
    INSERT INTO job_counts VALUES (NEW.tenant, NEW.queue, NEW.submitted_by, NEW.phase, 1)
    ON CONFLICT (tenant, queue, submitted_by, phase) DO UPDATE SET jobs = jobs + 1;
END;
-- +goose StatementEnd

-- +goose Down

DROP TRIGGER jobs_count_came;
DROP TRIGGER jobs_count_left;
DROP TRIGGER jobs_count_removed;
DROP TRIGGER jobs_count_added;
DROP TABLE job_counts;
