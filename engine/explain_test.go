package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// remedyCounts counts the outcomes of the search for remedies.
type remedyCounts struct {
	states, waiting, planned, single, pairs, none int
	kinds                                         map[ares.StepKind]int
	blockers                                      map[string]int
}

// TestEveryRemedyWorks checks a thousand random states. The text of every blocker must be correct. Every remedy
// must work: when it is carried out in a copy of the cluster, the next plan must place the job. The explanation
// must leave the state unchanged.
func TestEveryRemedyWorks(t *testing.T) {
	states := 1000
	if testing.Short() {
		states = 100
	}
	sum := remedyCounts{kinds: map[ares.StepKind]int{}, blockers: map[string]int{}}
	for i := range states + 1 {
		seed := uint64(i)
		if i == states {
			seed = 4974 // in this history the remedy itself moves the demand horizon
		}
		if checkExplanations(t, newRandomCluster(t, seed), seed, &sum); t.Failed() {
			return
		}
	}
	t.Logf("%d states, %d waiting jobs, %d of them in the next plan anyway; remedies: %d single, %d pairs; none known for %d jobs; steps %v; blockers %v",
		sum.states, sum.waiting, sum.planned, sum.single, sum.pairs, sum.none, sum.kinds, sum.blockers)
}

func checkExplanations(t *testing.T, w *randomCluster, seed uint64, sum *remedyCounts) {
	t.Helper()
	sum.states++
	before := engine.Decide(w.State, w.Now)
	naive := newOracle(w)
	for _, id := range waitingJobs(w.State) {
		sum.waiting++
		e := engine.Explain(w.State, id, w.Now)
		for _, b := range e.Blockers {
			sum.blockers[b.Kind]++
		}
		fail := func(format string, args ...any) {
			t.Helper()
			job, _ := w.State.Job(id)
			t.Errorf("seed %d, job %s (%+v): %s\nblockers: %v\nremedies: %+v", seed, id, job.Spec, fmt.Sprintf(format, args...), e.Refusal, e.Remedies)
		}
		if err := enginetest.CheckState(w.State); err != nil {
			fail("Explain changed the state: %v", err)
			return
		}
		if after := engine.Decide(w.State, w.Now); !reflect.DeepEqual(before, after) {
			fail("Explain changed the next plan from %+v to %+v", before, after)
			return
		}
		if in := places(before, id); !slices.Contains(before.Ready, id) && in != (len(e.Blockers) == 0) {
			fail("in the next plan: %t", in)
			return
		} else if in {
			sum.planned++
		}
		if err := naive.check(id, &e); err != nil {
			fail("%v", err)
			return
		}
		if err := discreet(w, id, &e); err != nil {
			fail("%v", err)
			return
		}
		if len(e.Remedies) == 0 && len(e.Blockers) > 0 {
			sum.none++
		}
		for _, r := range e.Remedies {
			if !works(t, w, id, r) && !learns(w, len(r)) {
				fail("%+v does not put it into the next plan", r)
				return
			}
			if len(r) == 1 {
				sum.single++
			} else {
				sum.pairs++
			}
			for _, step := range r {
				sum.kinds[step.Kind]++
			}
		}
	}
}

func waitingJobs(s *engine.State) []ares.JobID {
	var out []ares.JobID
	for job, run := range s.Jobs() {
		if run == nil || run.Phase.Waiting() || job.IsArray() && !run.Phase.Final() && run.Stop == nil && run.Next < job.Array.Count {
			out = append(out, job.ID)
		}
	}
	return out
}

// The function `works` carries out a remedy in a copy of the cluster, and reports whether the next plan places
// the job.
func works(t *testing.T, w *randomCluster, id ares.JobID, r ares.Remedy) bool {
	t.Helper()
	if len(r) < 1 || len(r) > 2 {
		return false
	}
	f := &randomCluster{Cluster: w.Fork(), queues: w.queues}
	for _, step := range r {
		if step.Kind != ares.StepWait {
			f.take(t, id, step)
		}
	}
	for _, step := range r { // waiting comes after the other steps
		if step.Kind == ares.StepWait {
			f.take(t, id, step)
		}
	}
	plan, err := f.Decide()
	if err == nil && slices.Contains(plan.Ready, id) { // the job's delay has ended, so the plan after this one places it
		if err = f.Commit(plan); err == nil {
			plan, err = f.Decide()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return places(plan, id)
}

// The function `learns` writes the given number of revisions to a copy of the cluster. These revisions change only
// the demand horizon. The result is true if the next plan then has other placements. A remedy is valid only for the
// state in which it was found.
func learns(w *randomCluster, revisions int) bool {
	f := w.Fork()
	for range revisions {
		for job := range f.State.Jobs() {
			again := *job
			f.PutEvents(ares.Event{Job: &again})
			break
		}
	}
	return !reflect.DeepEqual(engine.Decide(w.State, w.Now).Place, engine.Decide(f.State, f.Now).Place)
}

func places(p ares.Plan, id ares.JobID) bool {
	return slices.ContainsFunc(p.Place, func(pl ares.Placing) bool { return pl.Job == id || pl.ArrayOf == id })
}

// The function `discreet` checks that an explanation names no job of another tenant, and that its numbers
// are possible.
func discreet(w *randomCluster, id ares.JobID, e *ares.Explanation) error {
	job, _ := w.State.Job(id)
	var said strings.Builder
	for _, r := range e.Remedies {
		for _, s := range r {
			fmt.Fprintln(&said, s.Target, s.Field, s.Value, s.Text)
			if s.Text.IsEmpty() {
				return fmt.Errorf("step %+v has no text", s)
			}
		}
	}
	fmt.Fprintln(&said, e.Blockers, e.Ahead, e.Holders)
	for other := range w.State.Jobs() {
		if other.Tenant != job.Tenant && !slices.Contains(job.After, string(other.ID)) && strings.Contains(said.String(), string(other.ID)) {
			return fmt.Errorf("the explanation names %s", other.ID)
		}
	}
	if e.Rank > e.Of || e.Rank < 0 || len(e.Holders) > 10 {
		return fmt.Errorf("rank %d of %d, %d holders", e.Rank, e.Of, len(e.Holders))
	}
	return nil
}
