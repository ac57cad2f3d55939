-- +goose Up

-- The bills of closed months. A later price, or a job whose usage is computed again, does not change them.
CREATE TABLE billed_months (
    month     TEXT PRIMARY KEY,
    currency  TEXT NOT NULL,
    closed_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE billing_lines (
    month              TEXT NOT NULL,
    line_id            TEXT NOT NULL,
    tenant             TEXT NOT NULL,
    queue              TEXT NOT NULL,
    model              TEXT NOT NULL,
    region             TEXT NOT NULL,
    price_source       TEXT NOT NULL,
    price_per_gpu_hour REAL,
    jobs               INTEGER NOT NULL,
    gpu_milliseconds   INTEGER NOT NULL,
    PRIMARY KEY (month, line_id)
) WITHOUT ROWID;

-- +goose Down

DROP TABLE billing_lines;
DROP TABLE billed_months;
