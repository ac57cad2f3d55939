package learn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The type `planner` sends batches to a Learner, and keeps what the Learner returns as the state of a scheduler does.
type planner struct {
	*Learner
	now       time.Time
	revision  int64
	forecasts map[ares.JobID]ares.RuntimePredicted
	scores    map[string]ares.NodeScore
	events    int
}

func newPlanner() *planner {
	return &planner{Learner: New(), now: noon, forecasts: map[ares.JobID]ares.RuntimePredicted{}, scores: map[string]ares.NodeScore{}}
}

// The method `tell` sends one batch, and applies the events that the Learner returns until there are none.
func (p *planner) tell(reset bool, events ...ares.Event) {
	p.revision++
	if reset {
		clear(p.forecasts)
		clear(p.scores)
	}
	p.Follow(ares.Batch{Revision: p.revision, Reset: reset, Events: events}, p.now)
	for out := p.Events(p.now, 3); len(out) > 0; out = p.Events(p.now, 3) {
		p.events += len(out)
		for i := range out {
			switch e := &out[i]; {
			case e.Forecast != nil:
				p.forecasts[e.Forecast.Job] = *e.Forecast
			case e.Score != nil:
				p.scores[e.Score.Node] = *e.Score
			case e.Gone.Kind == ares.KindScore:
				delete(p.scores, e.Gone.ID)
			}
		}
		p.revision++
		p.Follow(ares.Batch{Revision: p.revision, Events: out}, p.now)
	}
}

// sameJob gives all jobs one name. Jobs with different names are not the same job, so the runs of one say little about another.
func sameJob(s *ares.Spec) { s.Name = "train" }

// succeeded returns the events of a job that ran for an hour until noon.
func succeeded(id ares.JobID) []ares.Event {
	return []ares.Event{trainEvent(id, sameJob), attempts(id, ares.Succeeded, noon.Add(-time.Hour), endedAfter(0, ares.OutcomeSucceeded))}
}

func TestLearnerReturnsForecastsAndScores(t *testing.T) {
	t.Parallel()
	p := newPlanner()
	p.tell(true, machine("n"), machine("m"), trainEvent("first"))
	if f, ok := p.forecasts["first"]; !ok || f.Samples != 0 || f.P90 <= 0 {
		t.Errorf("the first job has the forecast %+v, %v", f, ok)
	}
	p.tell(false, succeeded("done")...)
	p.tell(false, trainEvent("second", sameJob))
	if f := p.forecasts["second"]; f.Own != 1 || f.P50 < 50*time.Minute || f.P50 > 70*time.Minute {
		t.Errorf("after a run of one hour, the next has the forecast %+v", f)
	}
	p.now = p.now.Add(checkEvery)
	p.tell(false, lostOn("lost", "n", p.now)...)
	if s, ok := p.scores["n"]; !ok || s.Score >= ares.FullScore || s.Why == "" {
		t.Errorf("after a loss, node n has the score %+v", s)
	}
	before := p.events
	for range 5 {
		p.now = p.now.Add(time.Second)
		if p.tell(false); p.events != before {
			t.Fatal("events are returned although nothing changed")
		}
	}
	p.now = p.now.Add(30 * 24 * time.Hour)
	if p.tell(false); len(p.scores) != 0 {
		t.Errorf("after a month, %+v is left", p.scores)
	}
}

// TestLearnerKeepsItsRecordsOverASnapshot reads the whole cluster again, with other revisions of the jobs. The snapshot has
// no forecasts and scores, so they are returned again. Nothing is learned twice.
func TestLearnerKeepsItsRecordsOverASnapshot(t *testing.T) {
	t.Parallel()
	p := newPlanner()
	all := append(append(succeeded("done"), machine("n"), trainEvent("waits", sameJob)), lostOn("lost", "n", noon)...)
	p.tell(true, append(append(all, machine("gone")), lostOn("lost2", "gone", noon)...)...)
	forecast, score := p.forecasts["waits"], p.scores["n"].Score
	if forecast.P90 == 0 || score == 0 || p.scores["gone"].Score == 0 {
		t.Fatalf("forecasts %+v, scores %+v", p.forecasts, p.scores)
	}
	learned := p.runtimes.Unsaved()
	for i := range all {
		if all[i].Job != nil {
			j := *all[i].Job
			j.Revision = 99
			all[i].Job = &j
		}
	}
	p.tell(true, all...)
	if p.forecasts["waits"] != forecast || p.scores["n"].Score != score {
		t.Errorf("forecast %+v was %+v, and score %d was %d", p.forecasts["waits"], forecast, p.scores["n"].Score, score)
	}
	if len(p.forecasts) != 2 || len(p.scores) != 1 { // of the jobs that did not end, and of the nodes that still exist
		t.Errorf("forecasts %+v, scores %+v", p.forecasts, p.scores)
	}
	if p.runtimes.Unsaved() != learned {
		t.Errorf("%d runs were learned again", p.runtimes.Unsaved()-learned)
	}
}

// TestExportAndImport continues in another process. It must neither learn nor count anything twice.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	first := newPlanner()
	all := append(append(succeeded("done"), machine("n")), lostOn("lost", "n", noon)...)
	first.tell(true, all...)
	data, err := first.Export(noon)
	if err != nil {
		t.Fatal(err)
	}
	second := newPlanner()
	if err = second.Import(data, noon); err != nil {
		t.Fatal(err)
	}
	second.tell(true, append(all, trainEvent("waits", sameJob))...)
	if n := second.runtimes.Unsaved(); n != 0 {
		t.Errorf("%d runs were learned twice", n)
	}
	if second.scores["n"].Score != first.scores["n"].Score || second.scores["n"].Failures != 1000 {
		t.Errorf("%+v is continued as %+v", first.scores["n"], second.scores["n"])
	}
	if f := second.forecasts["waits"]; f.Own == 0 {
		t.Errorf("the next leader predicts %+v", f)
	}
	again, err := second.Export(noon)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same is exported as\n%s\nand then\n%s, %v", data, again, err)
	}
}

// TestExportIsBounded exports more than fits. The worst nodes and the latest jobs are kept.
func TestExportIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlanner()
	var events []ares.Event
	for i := range 4000 {
		node := fmt.Sprintf("node-%04d.a-long-name-of-a-cluster.example.org", i)
		events = append(events, machine(node))
		events = append(events, lostOn(ares.JobID(fmt.Sprint("lost", i)), node, noon)...)
	}
	events = append(events, lostOn("again", "node-3999.a-long-name-of-a-cluster.example.org", noon.Add(time.Second))...)
	word := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1+i/26) } // numbers would be removed
	for i := range 400 {
		for range 40 {
			id := ares.JobID(fmt.Sprint("job", len(events)))
			run := attempts(id, ares.Succeeded, noon.Add(-time.Duration(len(events))*time.Minute), endedAfter(time.Duration(i)*time.Second, ares.OutcomeSucceeded))
			events = append(events, trainEvent(id, func(s *ares.Spec) { s.Tenant, s.Name, s.Command = word(i), "x", []string{word(i)} }), run)
		}
	}
	p.Follow(ares.Batch{Revision: 1, Reset: true, Events: events}, noon.Add(time.Minute))
	data, err := p.Export(noon.Add(time.Minute))
	if err != nil || len(data) > MaxExportBytes || len(data) < MaxExportBytes/4 || !json.Valid(data) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	next := newPlanner()
	if err = next.Import(data, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n := len(next.nodes.carried); n < 500 || n >= 4000 || next.nodes.carried[n-1].Failures < 1900 {
		t.Errorf("%d nodes are exported, the last is %+v", n, next.nodes.carried[n-1])
	}
	latest := trainEvent("next", func(s *ares.Spec) { s.Tenant, s.Name, s.Command = word(399), "x", []string{word(399)} })
	if f := next.Predict(latest.Job); f.Own == 0 {
		t.Errorf("the latest runs are not exported: %+v", f)
	}
}

// TestImportOfDamagedData checks that an import either succeeds or changes nothing, and that its error says what to do.
func TestImportOfDamagedData(t *testing.T) {
	t.Parallel()
	first := newPlanner()
	first.tell(true, append(append(succeeded("done"), machine("n")), lostOn("lost", "n", noon)...)...)
	good, err := first.Export(noon)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(change func(*export)) []byte {
		var e export
		if err := json.Unmarshal(good, &e); err != nil {
			t.Fatal(err)
		}
		change(&e)
		out, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, data := range map[string][]byte{
		"empty":            nil,
		"too large":        bytes.Repeat([]byte(" "), MaxExportBytes+1),
		"cut off":          good[:len(good)/2],
		"another version":  edit(func(e *export) { e.Version = 2 }),
		"damaged runtimes": edit(func(e *export) { e.Runtimes = e.Runtimes[:len(e.Runtimes)-1] }),
		"without runtimes": edit(func(e *export) { e.Runtimes = nil }),
		"negative count":   edit(func(e *export) { e.Nodes[0].Failures = -1 }),
		"huge count":       edit(func(e *export) { e.Nodes[0].Samples = 1 << 62 }),
		"no name":          edit(func(e *export) { e.Nodes[0].Node = "" }),
		"huge logarithm":   edit(func(e *export) { e.Nodes[0].Logs = -1 << 62 }),
		"many families":    edit(func(e *export) { e.Nodes[0].Families = make([]uint64, 1000) }),
	} {
		p := newPlanner()
		err := p.Import(data, noon)
		if err == nil || !strings.Contains(err.Error(), "delete it") || p.nodes.carried != nil || !p.runtimes.Until().IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A clock that was ahead must not stop the learning.
	p := newPlanner()
	future := edit(func(e *export) {
		e.Until, e.Nodes[0].Until, e.Nodes[0].At = noon.AddDate(5, 0, 0), noon.AddDate(5, 0, 0), noon.AddDate(5, 0, 0)
	})
	if err := p.Import(future, noon); err != nil {
		t.Fatal(err)
	}
	p.tell(true, machine("n"))
	p.now = noon.Add(time.Hour)
	p.tell(false, lostOn("lost2", "n", p.now)...)
	if got := p.scores["n"]; got.Failures < 1900 {
		t.Errorf("the loss after the import is not counted: %+v", got)
	}
	p.tell(false, trainEvent("done2"), attempts("done2", ares.Succeeded, noon, endedAfter(time.Hour, ares.OutcomeSucceeded)))
	if p.runtimes.Unsaved() == 0 {
		t.Error("the run after the import is not learned")
	}
}
