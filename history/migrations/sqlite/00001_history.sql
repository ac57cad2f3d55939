-- +goose Up

CREATE TABLE jobs (
    seq               INTEGER PRIMARY KEY,
    job_id            TEXT    NOT NULL,
    accepted_revision INTEGER NOT NULL,
    run_revision      INTEGER NOT NULL,
    name              TEXT    NOT NULL,
    tenant            TEXT    NOT NULL,
    queue             TEXT    NOT NULL,
    submitted_by      TEXT    NOT NULL,
    phase             TEXT    NOT NULL,
    reason            TEXT    NOT NULL,
    outcome           TEXT    NOT NULL,
    exit_code         INTEGER,
    priority          INTEGER NOT NULL,
    priority_class    TEXT    NOT NULL,
    members           INTEGER NOT NULL,
    gpus_per_member   INTEGER NOT NULL,
    gpu_milli         INTEGER NOT NULL,
    gpu_model         TEXT    NOT NULL,
    cpu_cores         INTEGER NOT NULL,
    memory_mb         INTEGER NOT NULL,
    image             TEXT    NOT NULL,
    array_of          TEXT    NOT NULL,
    array_index       INTEGER NOT NULL,
    retry_of          TEXT    NOT NULL,
    accepted_at       TEXT    NOT NULL,
    started_at        TEXT,
    finished_at       TEXT    NOT NULL,
    attempts          INTEGER NOT NULL,
    retries           INTEGER NOT NULL,
    preemptions       INTEGER NOT NULL,
    gpu_milliseconds  INTEGER NOT NULL,
    digest            BLOB    NOT NULL,
    record            BLOB    NOT NULL,
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
    job_seq    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    placed_at  TEXT,
    started_at TEXT,
    ended_at   TEXT,
    outcome    TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    exit_code  INTEGER NOT NULL,
    score      INTEGER NOT NULL,
    seats      INTEGER NOT NULL,
    PRIMARY KEY (job_seq, number)
) WITHOUT ROWID;

CREATE TABLE placements (
    job_seq      INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    rank         INTEGER NOT NULL,
    node         TEXT    NOT NULL,
    device       TEXT    NOT NULL,
    device_index INTEGER NOT NULL,
    milli        INTEGER NOT NULL,
    model        TEXT    NOT NULL,
    region       TEXT    NOT NULL,
    seat_state   TEXT    NOT NULL,
    exit_code    INTEGER,
    PRIMARY KEY (job_seq, attempt, rank, device)
) WITHOUT ROWID;

CREATE TABLE transitions (
    job_seq  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at       TEXT    NOT NULL,
    phase    TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    message  TEXT    NOT NULL,
    PRIMARY KEY (job_seq, position)
) WITHOUT ROWID;

CREATE TABLE job_usage (
    job_seq          INTEGER NOT NULL,
    day              TEXT    NOT NULL,
    model            TEXT    NOT NULL,
    region           TEXT    NOT NULL,
    gpu_milliseconds INTEGER NOT NULL,
    jobs             INTEGER NOT NULL,
    PRIMARY KEY (job_seq, day, model, region)
) WITHOUT ROWID;

CREATE TABLE usage_daily (
    tenant           TEXT    NOT NULL,
    day              TEXT    NOT NULL,
    queue            TEXT    NOT NULL,
    submitted_by     TEXT    NOT NULL,
    model            TEXT    NOT NULL,
    region           TEXT    NOT NULL,
    kind             INTEGER NOT NULL,
    gpu_milliseconds INTEGER NOT NULL,
    jobs             INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, queue, submitted_by, model, region)
) WITHOUT ROWID;

-- The same without queue and user, which is many times smaller.
CREATE TABLE usage_by_tenant (
    tenant           TEXT NOT NULL,
    day              TEXT NOT NULL,
    kind             INTEGER NOT NULL,
    gpu_milliseconds INTEGER NOT NULL,
    jobs             INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, kind)
) WITHOUT ROWID;

-- Numbers for models in regions.
CREATE TABLE kinds (
    kind   INTEGER PRIMARY KEY,
    model  TEXT NOT NULL,
    region TEXT NOT NULL,
    UNIQUE (model, region)
);

CREATE TABLE accepted_days (
    day            TEXT    PRIMARY KEY,
    first_revision INTEGER NOT NULL,
    last_revision  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tenants (
    tenant              TEXT    PRIMARY KEY,
    name                TEXT    NOT NULL,
    max_gpus            INTEGER,
    max_gpu_memory_mb   INTEGER,
    max_cpu_cores       INTEGER,
    max_memory_mb       INTEGER,
    max_concurrent_jobs INTEGER,
    max_pending_jobs    INTEGER,
    priority_tier       TEXT    NOT NULL,
    fair_share_weight   REAL    NOT NULL,
    allow_preemption    BOOLEAN NOT NULL,
    gpu_hours_per_month INTEGER,
    gpus_in_use         REAL    NOT NULL,
    cpu_cores_in_use    INTEGER NOT NULL,
    memory_mb_in_use    INTEGER NOT NULL,
    jobs_running        INTEGER NOT NULL,
    jobs_waiting        INTEGER NOT NULL,
    as_of               TEXT    NOT NULL
) WITHOUT ROWID;

CREATE TABLE prices (
    model              TEXT NOT NULL,
    region             TEXT NOT NULL,
    from_day           TEXT NOT NULL,
    price_per_gpu_hour REAL NOT NULL,
    set_by             TEXT NOT NULL,
    set_at             TEXT NOT NULL,
    PRIMARY KEY (model, region, from_day)
) WITHOUT ROWID;

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE VIEW usage_costs AS
SELECT u.tenant, u.day, u.queue, u.submitted_by, u.model, u.region, u.jobs,
       u.gpu_milliseconds / 3600000.0 AS gpu_hours,
       u.gpu_milliseconds / 3600000.0 * (
           SELECT p.price_per_gpu_hour FROM prices p
           WHERE instr(lower(u.model), lower(p.model)) > 0 AND p.region IN (u.region, '') AND p.from_day <= u.day
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
