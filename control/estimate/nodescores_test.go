package estimate

import (
	"context"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestScoresAreWritten checks that a leader writes the score of a node that loses attempts. The next leader must continue from that
// score. The test also checks that the score is removed together with the node.
func TestScoresAreWritten(t *testing.T) {
	s := storetest.Embedded(t)
	node := storetest.NewNode(t, s)
	losses := 0
	reign := func() ares.NodeScore {
		v := cache.NewView(time.Now)
		scorer := NewScorer(v)
		scorer.Store, scorer.Now, scorer.Log = s, func() time.Time { return storetest.Noon.Add(time.Minute) }, controltest.Quiet
		scorer.Every, scorer.Rest = time.Millisecond, -1
		lead, resign := storetest.NewLead(t, s)
		stops := []func(){
			controltest.Run(t, func(ctx context.Context) error { return scorer.Lead(ctx, lead) }), controltest.Run(t, scorer.Run),
			controltest.Run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) }), resign,
		}
		job := storetest.NewJob(t, s)
		seats := storetest.Place(t, s, lead, job, node)
		storetest.Claim(t, s, seats, node)
		losses++
		if _, err := s.Finish(t.Context(), seats[0], storetest.Result(ares.OutcomeLost), storetest.Noon.Add(time.Duration(losses)*time.Second)); err != nil {
			t.Fatal(err)
		}
		storetest.Release(t, s, seats[0])
		controltest.Await(t, v, "the loss to be counted", func() bool {
			e := v.Node(node.ID)
			return e != nil && e.Score != nil && e.Score.Failures > int64(losses)*1000-100
		})
		for _, stop := range stops {
			stop()
		}
		return *v.Node(node.ID).Score
	}
	first, second := reign(), reign()
	if first.Score <= second.Score || second.Failures > 2000 || second.Samples > 2000 || !second.Until.Equal(storetest.Noon.Add(2*time.Second)) {
		t.Errorf("%+v, and then %+v", first, second)
	}
	node.Close(t, s)
	if _, _, err := s.RemoveNode(t.Context(), node.ID, nil, false, storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if left := storetest.Records(t, s, "scores/"); len(left) != 0 {
		t.Errorf("%d scores are left", len(left))
	}
}

// TestEstimatorDoesNotHoldUpTheView checks that batches are queued while the estimator learns.
func TestEstimatorDoesNotHoldUpTheView(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.mu.Lock() // as the estimator does while it learns or predicts
	l.inbox.put(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{trainEvent("a")}})
	l.inbox.put(ares.Batch{Revision: 2, Events: []ares.Event{trainEvent("b")}})
	l.mu.Unlock()
	l.read()
	l.begin()
	if known := l.next(); len(known) != 2 {
		t.Errorf("%d jobs are known", len(known))
	}
}

// TestFailedSaveIsTriedAgain checks that a failed save is repeated even if no other run ends.
func TestFailedSaveIsTriedAgain(t *testing.T) {
	s := storetest.Embedded(t)
	l := newLife()
	l.Store = s
	l.tell(true, trainEvent("a"))
	l.tell(false, attempts("a", ares.Succeeded, storetest.Noon, endedAfter(time.Hour, ares.OutcomeSucceeded)))
	lead, resign := storetest.NewLead(t, s)
	failing, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.save(failing, lead); err == nil {
		t.Fatal("it was saved")
	}
	if err := l.save(t.Context(), lead); err != nil {
		t.Fatal(err)
	}
	if memory, _, err := s.Forecaster(t.Context()); err != nil || memory == nil {
		t.Errorf("saved are %d bytes, %v", len(memory), err)
	}
	if err := l.save(failing, lead); err != nil {
		t.Errorf("nothing is left to save: %v", err)
	}
	resign()
}
