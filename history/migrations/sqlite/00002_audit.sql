-- +goose Up

CREATE TABLE audit (
    server         TEXT    NOT NULL,
    sequence       INTEGER NOT NULL,
    at             TEXT    NOT NULL,
    cluster        TEXT    NOT NULL,
    action         TEXT    NOT NULL,
    done_by        TEXT    NOT NULL,
    tenant         TEXT    NOT NULL,
    object         TEXT    NOT NULL,
    source         TEXT    NOT NULL,
    door           TEXT    NOT NULL,
    request_digest TEXT    NOT NULL,
    before_digest  TEXT    NOT NULL,
    after_digest   TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    code           TEXT    NOT NULL,
    request_id     TEXT    NOT NULL,
    detail         TEXT    NOT NULL,
    stands_for     INTEGER NOT NULL,
    since          TEXT,
    previous_hash  TEXT    NOT NULL,
    hash           TEXT    NOT NULL,
    PRIMARY KEY (server, sequence)
);
-- Lists read these backwards: the latest first.
CREATE INDEX audit_by_time ON audit (at, server, sequence);
CREATE INDEX audit_by_tenant ON audit (tenant, at, server, sequence);
CREATE INDEX audit_by_object ON audit (object, at);

-- +goose Down

DROP TABLE audit;
