package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"

	ares "github.com/ares-scheduler/ares"
)

// TestBoardsAreBounded: who asks for a thing of his own costs no memory of his
// own, and a state that keeps few boards decides as one that keeps all.
func TestBoardsAreBounded(t *testing.T) {
	t.Parallel()
	few, all := crowd(t, 1), crowd(t, 0)
	now := time.Unix(1_700_000_000, 0)
	a, b := Decide(few, now), Decide(all, now)
	if len(a.Place) < 100 || a.Digest() != b.Digest() {
		t.Errorf("with few boards %d are placed (%s), with all %d (%s)", len(a.Place), a.Digest(), len(b.Place), b.Digest())
	}
	if len(few.core.Scorer.ScoreCaches.Requests) != score.MinScoreCaches || len(all.core.Scorer.ScoreCaches.Requests) < 100 {
		t.Errorf("%d boards are kept where %d have room, and %d of all", len(few.core.Scorer.ScoreCaches.Requests), score.MinScoreCaches, len(all.core.Scorer.ScoreCaches.Requests))
	}
	for _, s := range []*State{few, all} {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestCrestsPassOver: a fleet without room needs no board to say so, and one
// device that comes free is found.
func TestCrestsPassOver(t *testing.T) {
	t.Parallel()
	s := crowd(t, 0)
	s.core.Refresh()
	w := &cluster.Request{GPUs: 9}
	if !s.core.Cluster.FitsNowhere(w) {
		t.Error("nine devices on a machine of eight")
	}
	if w.GPUs = 8; s.core.Cluster.FitsNowhere(w) {
		t.Error("eight devices of an empty machine are not there")
	}
	if w = (&cluster.Request{Milli: 1000, CPUs: 65}); !s.core.Cluster.FitsNowhere(w) {
		t.Error("65 CPUs on a machine of 64")
	}
}

// crowd is 100 machines and 200 jobs each of which asks for a thing of its own,
// with room for the given number of costs.
func crowd(t *testing.T, cells int) *State {
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
