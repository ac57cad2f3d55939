-- +goose Up

-- The bills of closed months. A later price, or a job whose usage is computed again, does not change them.
CREATE TABLE billed_months (
    month     TEXT COLLATE "C" PRIMARY KEY,
    currency  TEXT COLLATE "C" NOT NULL,
    closed_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE billing_lines (
    month              TEXT COLLATE "C" NOT NULL,
    line_id            TEXT COLLATE "C" NOT NULL,
    tenant             TEXT COLLATE "C" NOT NULL,
    queue              TEXT COLLATE "C" NOT NULL,
    model              TEXT COLLATE "C" NOT NULL,
    region             TEXT COLLATE "C" NOT NULL,
    price_source       TEXT COLLATE "C" NOT NULL,
    price_per_gpu_hour DOUBLE PRECISION,
    jobs               BIGINT NOT NULL,
    gpu_milliseconds   BIGINT NOT NULL,
    PRIMARY KEY (month, line_id)
);

-- +goose Down

DROP TABLE billing_lines;
DROP TABLE billed_months;
