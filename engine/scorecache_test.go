package engine

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
)

// TestScoreCachesAreBounded checks that the number of score caches does not grow with the number of distinct
// requests. A state with only a few caches must make the same decisions as a state that has a cache for
// every request.
func TestScoreCachesAreBounded(t *testing.T) {
	t.Parallel()
	few, all := distinctRequests(t, 1), distinctRequests(t, 0)
	now := time.Unix(1_700_000_000, 0)
	a, b := Decide(few, now), Decide(all, now)
	if len(a.Place) < 100 || a.Digest() != b.Digest() {
		t.Errorf("with few score caches %d jobs are placed (%s), with all %d (%s)", len(a.Place), a.Digest(), len(b.Place), b.Digest())
	}
	if len(few.core.Scorer.ScoreCaches.Requests) != score.MinScoreCaches || len(all.core.Scorer.ScoreCaches.Requests) < 100 {
		t.Errorf("%d score caches where the limit is %d, and %d without a limit", len(few.core.Scorer.ScoreCaches.Requests), score.MinScoreCaches, len(all.core.Scorer.ScoreCaches.Requests))
	}
	for _, s := range []*State{few, all} {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestFitsNowhere checks that FitsNowhere returns true for requests that are too large for every node. For a
// request that fits, it must return false.
func TestFitsNowhere(t *testing.T) {
	t.Parallel()
	s := distinctRequests(t, 0)
	s.core.Refresh()
	w := &cluster.Request{GPUs: 9}
	if !s.core.Cluster.FitsNowhere(w) {
		t.Error("nine devices fit on a node of eight")
	}
	if w.GPUs = 8; s.core.Cluster.FitsNowhere(w) {
		t.Error("eight devices do not fit on an empty node of eight")
	}
	if w = (&cluster.Request{Milli: 1000, MilliCPUs: 65_000}); !s.core.Cluster.FitsNowhere(w) {
		t.Error("65 CPUs fit on a node of 64")
	}
}

// distinctRequests returns a state of 100 nodes and 200 waiting jobs with distinct requests. The argument named
// `cells` limits the number of scores in the state's caches. The value 0 means the default.
func distinctRequests(t *testing.T, cells int) *State {
	t.Helper()
	s := New()
	s.core.Scorer.ScoreCaches.MaxCells = cells
	events := []ares.Event{{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}}}
	for i := range 100 {
		n := &ares.Node{ID: fmt.Sprintf("n%03d", i), CPUs: 64, MemoryMB: 1 << 20}
		for g := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s/%d", n.ID, g), Index: g, Type: ares.DefaultAccelerator, Model: "h100", Healthy: true})
		}
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID}})
	}
	for i := range 200 {
		spec := ares.Spec{GPUs: 1 + i%8, MemoryMB: 1 + i}
		events = append(events, ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: ares.JobID(fmt.Sprintf("j%03d", i)), Revision: 1}})
	}
	s.Apply(ares.Batch{Revision: 1, Events: events})
	return s
}
