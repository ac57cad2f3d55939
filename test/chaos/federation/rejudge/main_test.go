package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{nil, {filepath.Join(dir, "missing")}} {
		var out, errs strings.Builder
		if code := run(args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, printed %q", args, code, &errs)
		}
	}
	if err := verdict.WriteMeta(dir, verdict.Meta{Seed: 7}); err != nil {
		t.Fatal(err)
	}
	w, err := trace.Create(filepath.Join(dir, verdict.Hub))
	if err == nil {
		err = w.Meta(trace.Meta{Hub: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := run([]string{dir}, &out, &errs); code != 1 || !strings.Contains(out.String(), "nothing of the store is recorded") || !strings.Contains(out.String(), "seed 7") {
		t.Errorf("a record of nothing: exit code %d, printed\n%s%s", code, &out, &errs)
	}
}
