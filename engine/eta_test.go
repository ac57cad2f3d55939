package engine_test

import (
	"fmt"
	"testing"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestAnETASaysHowManyAreBefore: a job that comes after more than are walked is told so,
// and that it cannot start before a window has ended, if so.
func TestAnETASaysHowManyAreBefore(t *testing.T) {
	for _, c := range []struct {
		shut  string
		known bool
		want  string
	}{
		{"a", false, "unknown: more than 128 jobs are before it"},
		{"a, b", true, "reserved for maintenance until 2026-01-01T01:00:00Z (reservation disks); more than 128 jobs are before it"},
	} {
		w := enginetest.NewCluster()
		do := func(format string, args ...any) {
			t.Helper()
			if err := w.RunLine(fmt.Sprintf(format, args...)); err != nil {
				t.Fatal(err)
			}
		}
		do("node a gpus=4")
		do("node b gpus=4")
		do("job there gpus=4")
		do("decide")
		do("job here gpus=4")
		do("decide")
		do("reservation disks in=0s for=1h nodes=(%s)", c.shut)
		for i := range 140 {
			do("job before%d gpus=4 memory-mb=%d priority=900", i, i+1) // nothing is foreseen for any
		}
		do("job last gpus=4 max-runtime-minutes=60")
		eta := engine.Explain(w.State, "last", w.Now).ETA
		if eta.Known() != c.known || eta.Basis != c.want {
			t.Errorf("%s shut: %+v, want %q", c.shut, eta, c.want)
		}
	}
}
