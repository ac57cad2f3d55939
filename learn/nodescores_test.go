package learn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The type `watch` sends nodes and jobs to a NodeScores.
type watch struct {
	*NodeScores
	now      time.Time
	revision int64
}

func newWatch() *watch { return &watch{NodeScores: NewNodeScores(), now: noon} }

func (w *watch) tell(reset bool, events ...ares.Event) {
	w.revision++
	w.Follow(&ares.Batch{Revision: w.revision, Reset: reset, Events: events}, w.now)
}

// The method `due` returns the scores to write, as a server does.
func (w *watch) due() []ares.NodeScore { return w.Due(w.now, time.Minute, 60) }

func (w *watch) score(node string) int {
	for _, r := range w.Current(w.now) {
		if r.Node == node {
			return r.Score
		}
	}
	return ares.FullScore
}

func machine(id string) ares.Event {
	return ares.Event{Node: &ares.Node{ID: id, Devices: []ares.Device{{ID: id + "-0", Model: "H100", Healthy: true}}}}
}

// lostOn returns the events of a job whose only attempt was lost with a node.
func lostOn(id ares.JobID, node string, at time.Time) []ares.Event {
	a := ares.Attempt{Number: 1, Outcome: ares.OutcomeLost, StartedAt: at.Add(-time.Hour), EndedAt: at}
	a.Seats = []ares.SeatStatus{{Seat: ares.Seat{Node: node}, State: ares.SeatVoided, Result: &ares.RankResult{Outcome: ares.OutcomeLost, EndedAt: at}}}
	return []ares.Event{trainEvent(id), {Run: &ares.RunEvent{Job: id, Run: ares.Run{Phase: ares.Pending, Placed: 1, Attempts: []ares.Attempt{a}}}}}
}

// TestAttemptsAreCountedOnce checks that each attempt is counted once. The test includes repeated events, snapshots, and a server that starts
// from another server's records.
func TestAttemptsAreCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.tell(true, machine("n"))
	first := lostOn("a", "n", noon)
	w.tell(false, first...)
	after := w.score("n")
	w.tell(false, first...)
	if w.score("n") != after || after == ares.FullScore {
		t.Fatalf("told twice it is %d, once %d", w.score("n"), after)
	}
	due := w.due()
	if len(due) != 1 || due[0].Score != after {
		t.Fatalf("due are %+v", due)
	}
	w.MarkWritten(due, w.now)
	record := ares.Event{Score: &due[0]}
	second := lostOn("b", "n", noon.Add(time.Second))
	w.now = noon.Add(time.Second)
	w.tell(false, second...)
	want := w.score("n")
	if want >= after {
		t.Fatalf("the second loss makes it %d after %d", want, after)
	}
	for name, next := range map[string]*watch{"a new server": newWatch(), "the same, behind the store's window": w} {
		next.now = w.now
		// A snapshot is sorted by kind: jobs, nodes, runs, scores.
		next.tell(true, first[0], second[0], machine("n"), first[1], second[1], record)
		if got := next.score("n"); got != want {
			t.Errorf("%s says %d, want %d", name, got, want)
		}
	}
}

// TestScoresAreWrittenRarely checks that a score is written only when it has changed noticeably, and at most once a minute per node.
// TestScoresAreWrittenRarely also checks that the record is deleted once old attempts no longer affect
// the score.
func TestScoresAreWrittenRarely(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.tell(true, machine("n"), machine("other"))
	written := 0
	step := func(d time.Duration) {
		w.now = w.now.Add(d)
		if due := w.due(); len(due) > 0 {
			written += len(due)
			w.MarkWritten(due, w.now)
		}
	}
	for i := range 30 {
		w.tell(false, lostOn(ares.JobID(fmt.Sprint("j", i)), "n", w.now)...)
		step(time.Second)
	}
	if written != 1 {
		t.Errorf("written %d times in half a minute", written)
	}
	if step(time.Minute); written != 2 || w.told["n"].Score > 150 || !strings.Contains(w.told["n"].Why, "it ended 30 of 30 attempts") {
		t.Errorf("after a minute %d times, %+v", written, w.told["n"])
	}
	last := w.told["n"].Score
	for range 24 * 20 {
		step(time.Hour)
		if now := scoreOf(w.told["n"]); now < last {
			t.Fatalf("it got worse by itself: %d after %d", now, last)
		} else {
			last = now
		}
	}
	if w.told["n"] != nil || written > 45 {
		t.Errorf("after twenty days %+v is left, written %d times", w.told["n"], written)
	}
}

// TestDevicesThatFail checks that a device lowers its node's score when it becomes unhealthy. A device that was already unhealthy in
// the first record must not lower the score.
func TestDevicesThatFail(t *testing.T) {
	t.Parallel()
	w := newWatch()
	sick := machine("n")
	sick.Node.Devices[0].Healthy = false
	w.tell(true, sick, machine("m"))
	w.tell(false, sick)
	if w.score("n") != ares.FullScore {
		t.Error("the device was unhealthy before the first record")
	}
	w.tell(false, machine("n"))
	w.tell(false, sick)
	if w.score("n") == ares.FullScore {
		t.Error("the failure of the device was not counted")
	}
	w.tell(false, ares.Event{Gone: ares.Gone{Kind: ares.KindNode, ID: "n"}})
	if w.score("n") != ares.FullScore {
		t.Error("a new node of the same name has the old score")
	}
}

// TestFailuresOfJobsDoNotLowerTheScore checks that only failures that the node caused lower its score. Many different
// commands of users fail on one node and on no other node, in each of the ways in which a job can fail by itself.
func TestFailuresOfJobsDoNotLowerTheScore(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.tell(true, machine("n"), machine("m"))
	endOn := func(id ares.JobID, node string, o ares.Outcome) {
		a := ares.Attempt{Number: 1, Outcome: o, StartedAt: w.now.Add(-time.Hour), EndedAt: w.now}
		a.Seats = []ares.SeatStatus{{Seat: ares.Seat{Node: node}, State: ares.SeatReleased, Result: &ares.RankResult{Outcome: o, EndedAt: w.now}}}
		command := func(s *ares.Spec) { s.Name, s.Command = string(id)+"x", []string{"run-" + string(id)} }
		w.tell(false, trainEvent(id, command), ares.Event{Run: &ares.RunEvent{Job: id, Run: ares.Run{Phase: ares.Failed, Placed: 1, Attempts: []ares.Attempt{a}}}})
	}
	for i, o := range []ares.Outcome{ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeSpawnError, ares.OutcomeTimeout} {
		for k := range 6 {
			id := string(rune('a'+i)) + string(rune('a'+k))
			endOn(ares.JobID("bad"+id), "n", o)
			endOn(ares.JobID("good"+id), "m", ares.OutcomeSucceeded)
		}
	}
	if got := w.score("n"); got != ares.FullScore {
		t.Errorf("commands of users failed, and the score of their node is %d", got)
	}
	endOn("lost", "n", ares.OutcomeLost) // such as a process that the node could not start
	if got := w.score("n"); got == ares.FullScore {
		t.Error("the node ended an attempt, and its score is still full")
	}
}

// TestForecastsFromOtherJobsAreIgnored checks that a node counts as slow only by earlier runs of the same job.
func TestForecastsFromOtherJobsAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.tell(true, machine("n"), trainEvent("a"), trainEvent("b"))
	w.tell(false,
		ares.Event{Forecast: &ares.RuntimePredicted{Job: "a", P50: time.Minute, P90: time.Hour, Samples: 30}},
		ares.Event{Forecast: &ares.RuntimePredicted{Job: "b", P50: time.Minute, P90: time.Hour, Samples: 30, Own: 30}})
	if a, b := w.watched["a"], w.watched["b"]; a == nil || a.predicted != 0 || b == nil || b.predicted != time.Minute {
		t.Errorf("by other jobs %+v, by its own %+v", a, b)
	}
}

// TestEndAndDeletionTogether checks that an attempt counts whose job is deleted in the same batch.
func TestEndAndDeletionTogether(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.tell(true, machine("n"))
	w.tell(false, append(lostOn("a", "n", noon), ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: "a"}})...)
	if w.score("n") == ares.FullScore {
		t.Error("the lost attempt does not count")
	}
	if len(w.watched) > 0 {
		t.Error("the deleted job is still followed")
	}
}
