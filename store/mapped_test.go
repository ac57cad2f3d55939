package store

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReleasePages checks that the pages of the store's file leave the memory of the process, and that the store still
// reads and writes its records.
func TestReleasePages(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	value := strings.Repeat("x", 100_000)
	put := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := s.client.Put(t.Context(), fmt.Sprintf("/test/%d", i), value); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, 50)
	if err := s.inside.etcd.Server.Backend().Defrag(); err != nil { // writes all records, and maps the file again
		t.Fatal(err)
	}
	before := residentKB(t, databaseFile(dir))
	if before < 4000 {
		t.Fatalf("only %d kB of the store are in memory", before)
	}
	if err := s.ReleasePages(); err != nil {
		t.Fatal(err)
	}
	if after := residentKB(t, databaseFile(dir)); after > before/2 {
		t.Errorf("%d kB of %d kB are still in memory", after, before)
	}
	put(50, 60)
	got, err := s.client.Get(t.Context(), "/test/7")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
		t.Errorf("a record is lost: %v", err)
	}
}

// residentKB returns how much of a mapped file is in the memory of this process.
func residentKB(t *testing.T, file string) (sum int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			inside = strings.HasSuffix(strings.TrimSpace(line), file)
		case inside && fields[0] == "Rss:":
			kb := 0
			if _, err := fmt.Sscan(fields[1], &kb); err != nil {
				t.Fatal(err)
			}
			sum += kb
		}
	}
	return sum
}
