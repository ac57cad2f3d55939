package store

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestNetworkNoneIsNotMisread checks that an earlier version of Ares, which does not know the field network, refuses the record of a job
// that must not reach the network. It would run the job with the network. It can read all other jobs.
func TestNetworkNoneIsNotMisread(t *testing.T) {
	for network, want := range map[string]int32{"": 0, ares.NetworkHost: 0, ares.NetworkNone: networkReader} {
		job := &ares.Job{Spec: ares.Spec{Constraints: &ares.Placement{Network: network}}}
		rec := jobRecord(job)
		if rec.GetMinReader() != want {
			t.Errorf("network %q: readers of format %d", network, rec.GetMinReader())
		}
		value, err := marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := unmarshal("/ares/jobs/a", []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		if got := jobOf(again.GetJob(), "a", 1); got.HasOwnNetwork() != (network == ares.NetworkNone) {
			t.Errorf("network %q was read as %q", network, got.Placement().Network)
		}
	}
}
