package engine_test

import (
	"fmt"
	"testing"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestETABehindManyJobs checks the ETA of a job with very many jobs ahead of it. Their number is larger than the
// number of jobs that an ETA simulates. The ETA must say that too many jobs are ahead. If reservations hold all
// nodes, the ETA must also name the reservation that has to end.
func TestETABehindManyJobs(t *testing.T) {
	for _, c := range []struct {
		nodes string
		known bool
		want  string
	}{
		{"a", false, "unknown: more than 128 jobs are ahead of it"},
		{"a, b", true, "reserved for maintenance until 2026-01-01T01:00:00Z (reservation disks); more than 128 jobs are ahead of it"},
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
		do("reservation disks in=0s for=1h nodes=(%s)", c.nodes)
		for i := range 140 {
			do("job before%d gpus=4 memory-mb=%d priority=900", i, i+1) // none of these jobs has an estimated start
		}
		do("job last gpus=4 max-runtime-minutes=60")
		eta := engine.Explain(w.State, "last", w.Now).ETA
		if eta.Known() != c.known || eta.Basis.String() != c.want {
			t.Errorf("%s reserved: %+v, want %q", c.nodes, eta, c.want)
		}
	}
}
