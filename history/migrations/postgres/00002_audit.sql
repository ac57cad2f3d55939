-- +goose Up

CREATE TABLE audit (
    server         TEXT COLLATE "C" NOT NULL,
    sequence       BIGINT NOT NULL,
    at             TIMESTAMPTZ NOT NULL,
    cluster        TEXT COLLATE "C" NOT NULL,
    action         TEXT COLLATE "C" NOT NULL,
    done_by        TEXT COLLATE "C" NOT NULL,
    tenant         TEXT COLLATE "C" NOT NULL,
    object         TEXT COLLATE "C" NOT NULL,
    source         TEXT COLLATE "C" NOT NULL,
    door           TEXT COLLATE "C" NOT NULL,
    request_digest TEXT COLLATE "C" NOT NULL,
    before_digest  TEXT COLLATE "C" NOT NULL,
    after_digest   TEXT COLLATE "C" NOT NULL,
    status         TEXT COLLATE "C" NOT NULL,
    code           TEXT COLLATE "C" NOT NULL,
    request_id     TEXT COLLATE "C" NOT NULL,
    detail         TEXT COLLATE "C" NOT NULL,
    stands_for     INTEGER NOT NULL,
    since          TIMESTAMPTZ,
    previous_hash  TEXT COLLATE "C" NOT NULL,
    hash           TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (server, sequence)
);
-- Lists read these backwards: the latest first.
CREATE INDEX audit_by_time ON audit (at, server, sequence);
CREATE INDEX audit_by_tenant ON audit (tenant, at, server, sequence);
CREATE INDEX audit_by_object ON audit (object, at);

-- +goose Down

DROP TABLE audit;
