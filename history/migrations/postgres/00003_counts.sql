-- +goose Up

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

-- +goose Down

DROP TABLE job_counts;
