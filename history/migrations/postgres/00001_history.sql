-- +goose Up

CREATE TABLE jobs (
    seq               BIGINT PRIMARY KEY,
    job_id            TEXT COLLATE "C" NOT NULL,
    accepted_revision BIGINT NOT NULL,
    run_revision      BIGINT NOT NULL,
    name              TEXT COLLATE "C" NOT NULL,
    tenant            TEXT COLLATE "C" NOT NULL,
    queue             TEXT COLLATE "C" NOT NULL,
    submitted_by      TEXT COLLATE "C" NOT NULL,
    phase             TEXT COLLATE "C" NOT NULL,
    reason            TEXT COLLATE "C" NOT NULL,
    outcome           TEXT COLLATE "C" NOT NULL,
    exit_code         INTEGER,
    priority          INTEGER NOT NULL,
    priority_class    TEXT COLLATE "C" NOT NULL,
    members           INTEGER NOT NULL,
    gpus_per_member   INTEGER NOT NULL,
    gpu_milli         INTEGER NOT NULL,
    gpu_model         TEXT COLLATE "C" NOT NULL,
    cpu_cores         INTEGER NOT NULL,
    memory_mb         INTEGER NOT NULL,
    image             TEXT COLLATE "C" NOT NULL,
    array_of          TEXT COLLATE "C" NOT NULL,
    array_index       INTEGER NOT NULL,
    retry_of          TEXT COLLATE "C" NOT NULL,
    accepted_at       TIMESTAMPTZ NOT NULL,
    started_at        TIMESTAMPTZ,
    finished_at       TIMESTAMPTZ NOT NULL,
    attempts          INTEGER NOT NULL,
    retries           INTEGER NOT NULL,
    preemptions       INTEGER NOT NULL,
    gpu_milliseconds  BIGINT NOT NULL,
    digest            BYTEA   NOT NULL,
    record            BYTEA   NOT NULL,
    UNIQUE (job_id, accepted_revision)
);
-- Lists read these backwards: newest first, by ID within a revision.
CREATE INDEX jobs_by_acceptance ON jobs (accepted_revision, job_id DESC) WHERE array_of = '';
CREATE INDEX jobs_by_tenant ON jobs (tenant, accepted_revision, job_id DESC, queue, phase, submitted_by) WHERE array_of = '';
CREATE INDEX jobs_by_user ON jobs (submitted_by, accepted_revision, job_id DESC) WHERE array_of = '';
CREATE INDEX jobs_by_phase ON jobs (phase, accepted_revision, job_id DESC) WHERE array_of = '';
CREATE INDEX jobs_by_array ON jobs (array_of, array_index) WHERE array_of <> '';
CREATE INDEX jobs_by_end ON jobs (finished_at);

CREATE TABLE attempts (
    job_seq    BIGINT NOT NULL,
    number     INTEGER NOT NULL,
    fence      BIGINT NOT NULL,
    placed_at  TIMESTAMPTZ,
    started_at TIMESTAMPTZ,
    ended_at   TIMESTAMPTZ,
    outcome    TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL,
    exit_code  INTEGER NOT NULL,
    score      INTEGER NOT NULL,
    seats      INTEGER NOT NULL,
    PRIMARY KEY (job_seq, number)
);

CREATE TABLE placements (
    job_seq      BIGINT NOT NULL,
    attempt      INTEGER NOT NULL,
    rank         INTEGER NOT NULL,
    node         TEXT COLLATE "C" NOT NULL,
    device       TEXT COLLATE "C" NOT NULL,
    device_index INTEGER NOT NULL,
    milli        INTEGER NOT NULL,
    model        TEXT COLLATE "C" NOT NULL,
    region       TEXT COLLATE "C" NOT NULL,
    seat_state   TEXT COLLATE "C" NOT NULL,
    exit_code    INTEGER,
    PRIMARY KEY (job_seq, attempt, rank, device)
);

CREATE TABLE transitions (
    job_seq  BIGINT NOT NULL,
    position INTEGER NOT NULL,
    at       TIMESTAMPTZ NOT NULL,
    phase    TEXT COLLATE "C" NOT NULL,
    attempt  INTEGER NOT NULL,
    message  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (job_seq, position)
);

CREATE TABLE job_usage (
    job_seq          BIGINT NOT NULL,
    day              DATE    NOT NULL,
    model            TEXT COLLATE "C" NOT NULL,
    region           TEXT COLLATE "C" NOT NULL,
    gpu_milliseconds BIGINT NOT NULL,
    jobs             BIGINT NOT NULL,
    PRIMARY KEY (job_seq, day, model, region)
);

CREATE TABLE usage_daily (
    tenant           TEXT COLLATE "C" NOT NULL,
    day              DATE    NOT NULL,
    queue            TEXT COLLATE "C" NOT NULL,
    submitted_by     TEXT COLLATE "C" NOT NULL,
    model            TEXT COLLATE "C" NOT NULL,
    region           TEXT COLLATE "C" NOT NULL,
    kind             INTEGER NOT NULL,
    gpu_milliseconds BIGINT NOT NULL,
    jobs             BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, queue, submitted_by, model, region)
);

-- The same without queue and user, which is many times smaller.
CREATE TABLE usage_by_tenant (
    tenant           TEXT COLLATE "C" NOT NULL,
    day              DATE NOT NULL,
    kind             INTEGER NOT NULL,
    gpu_milliseconds BIGINT NOT NULL,
    jobs             BIGINT NOT NULL,
    PRIMARY KEY (tenant, day, kind)
);

-- Numbers for models in regions.
CREATE TABLE kinds (
    kind   INTEGER PRIMARY KEY,
    model  TEXT COLLATE "C" NOT NULL,
    region TEXT COLLATE "C" NOT NULL,
    UNIQUE (model, region)
);

CREATE TABLE accepted_days (
    day            DATE    PRIMARY KEY,
    first_revision BIGINT NOT NULL,
    last_revision  BIGINT NOT NULL
);

CREATE TABLE tenants (
    tenant              TEXT COLLATE "C" PRIMARY KEY,
    name                TEXT COLLATE "C" NOT NULL,
    max_gpus            INTEGER,
    max_gpu_memory_mb   INTEGER,
    max_cpu_cores       INTEGER,
    max_memory_mb       INTEGER,
    max_concurrent_jobs INTEGER,
    max_pending_jobs    INTEGER,
    priority_tier       TEXT COLLATE "C" NOT NULL,
    fair_share_weight   DOUBLE PRECISION NOT NULL,
    allow_preemption    BOOLEAN NOT NULL,
    gpu_hours_per_month INTEGER,
    gpus_in_use         DOUBLE PRECISION NOT NULL,
    cpu_cores_in_use    INTEGER NOT NULL,
    memory_mb_in_use    INTEGER NOT NULL,
    jobs_running        INTEGER NOT NULL,
    jobs_waiting        INTEGER NOT NULL,
    as_of               TIMESTAMPTZ NOT NULL
);

CREATE TABLE prices (
    model              TEXT COLLATE "C" NOT NULL,
    region             TEXT COLLATE "C" NOT NULL,
    from_day           DATE NOT NULL,
    price_per_gpu_hour DOUBLE PRECISION NOT NULL,
    set_by             TEXT COLLATE "C" NOT NULL,
    set_at             TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (model, region, from_day)
);

CREATE TABLE settings (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

CREATE VIEW usage_costs AS
SELECT u.tenant, u.day, u.queue, u.submitted_by, u.model, u.region, u.jobs,
       u.gpu_milliseconds / 3600000.0 AS gpu_hours,
       u.gpu_milliseconds / 3600000.0 * (
           SELECT p.price_per_gpu_hour FROM prices p
           WHERE strpos(lower(u.model), lower(p.model)) > 0 AND p.region IN (u.region, '') AND p.from_day <= u.day
           ORDER BY length(p.model) DESC, (p.region <> '') DESC, p.model, p.from_day DESC LIMIT 1
       ) AS cost
FROM usage_daily u;

-- +goose Down

DROP VIEW usage_costs;
DROP TABLE settings;
DROP TABLE prices;
DROP TABLE tenants;
DROP TABLE accepted_days;
DROP TABLE kinds;
DROP TABLE usage_by_tenant;
DROP TABLE usage_daily;
DROP TABLE job_usage;
DROP TABLE transitions;
DROP TABLE placements;
DROP TABLE attempts;
DROP TABLE jobs;
