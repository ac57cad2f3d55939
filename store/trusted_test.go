package store

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// TestAJobOfAnEarlierVersionIsNotTrusted checks that a job is trusted only if its record says so. Nobody knows who submitted
// a job of an earlier version, and its command may be a tenant's.
func TestAJobOfAnEarlierVersionIsNotTrusted(t *testing.T) {
	for _, c := range []struct {
		rec  *storepb.Job
		want bool
	}{
		{&storepb.Job{}, false},
		{&storepb.Job{Trusted: true}, true},
		{&storepb.Job{Untrusted: true}, false},
		{&storepb.Job{Trusted: true, Untrusted: true}, false},
	} {
		if got := jobOf(c.rec, "job-x", 1).Trusted; got != c.want {
			t.Errorf("%v: trusted %v", c.rec, got)
		}
	}
	for _, trusted := range []bool{false, true} {
		rec := jobRecord(&ares.Job{Trusted: trusted}).GetJob()
		if rec.GetTrusted() != trusted || rec.GetUntrusted() == trusted || jobOf(rec, "job-x", 1).Trusted != trusted {
			t.Errorf("trusted %v is stored as %v", trusted, rec)
		}
	}
}
