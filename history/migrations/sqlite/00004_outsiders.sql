-- +goose Up

-- Whether who asked has no part in the tenant; of entries from before, not known.
ALTER TABLE audit ADD COLUMN outside BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down

ALTER TABLE audit DROP COLUMN outside;
