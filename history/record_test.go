package history

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestRecordsKeepTheirNames checks that the format of stored records does not change between versions. A record is JSON with the names
// of the fields of ares.Job and ares.Run. If a field is renamed, its JSON tag must keep the original name.
func TestRecordsKeepTheirNames(t *testing.T) {
	packed, err := os.Open("testdata/949e3a0.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "history.db")
	if err = os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqliteAt(file, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	records := 0
	failed := scanAll(t.Context(), db, "SELECT record FROM jobs", nil, func(row *sql.Rows) error {
		var data []byte
		err := row.Scan(&data)
		if err != nil {
			return err
		}
		was, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(data[1:]), dictionary1))
		if err != nil {
			return err
		}
		r, err := decode(data)
		if err != nil {
			return err
		}
		again, err := json.Marshal(r)
		if !bytes.Equal(again, was) {
			t.Errorf("a record reads\n%s\nand is written as\n%s", was, again)
		}
		records++
		return err
	})
	if failed != nil || records == 0 {
		t.Fatalf("%d records: %v", records, failed)
	}
}
