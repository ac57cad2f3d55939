package check_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The type `made` is a builder with which a test makes a record by hand. The
// builder simulates a small Ares. Its jobs use the real state transitions, so
// that a good record is really valid.
type made struct {
	t     testing.TB
	r     *trace.Run
	rev   int64
	now   time.Duration
	jobs  map[string]*ares.Job
	runs  map[string]*ares.Run
	gone  map[string]bool
	order []string
}

const gpusPerNode = 2

func make1(t testing.TB) *made {
	t.Helper()
	m := &made{
		t: t, rev: 100, now: 10 * time.Second, jobs: map[string]*ares.Job{}, runs: map[string]*ares.Run{}, gone: map[string]bool{},
		r: &trace.Run{Witnesses: map[string][]trace.Witness{}},
	}
	m.r.Meta = trace.Meta{Start: m.now, Nodes: []string{"n1", "n2", "n3"}, Servers: []string{"s1", "s2"}, Quotas: map[string]int{"t": 4}}
	m.snapshot()
	return m
}

func (m *made) tick() time.Duration {
	m.now += 10 * time.Millisecond
	return m.now
}

func (m *made) wall() time.Time { return time.Unix(1_700_000_000, 0).UTC().Add(m.now) }

func (m *made) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// This method records the next revision of the store.
func (m *made) commit(events ...ares.Event) {
	m.rev++
	for i := range events {
		events[i].Revision = m.rev
	}
	m.r.Store = append(m.r.Store, trace.Entry{At: m.tick(), Batch: ares.Batch{Revision: m.rev, Events: events}})
}

// This method records the whole state at the current revision.
func (m *made) snapshot() {
	b := ares.Batch{Revision: m.rev, Reset: true}
	for _, id := range m.order {
		if m.gone[id] {
			b.Events = append(b.Events, ares.Event{Revision: m.rev, Gone: ares.Gone{Kind: ares.KindJob, ID: id}})
			continue
		}
		b.Events = append(b.Events, ares.Event{Revision: m.jobs[id].Revision, Job: m.jobs[id]})
	}
	for _, id := range m.r.Meta.Nodes {
		n := &ares.Node{ID: id, CPUs: 8, MemoryMB: 1000, Revision: 1}
		for i := range gpusPerNode {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s-gpu%d", id, i), Index: i, Type: "gpu", Healthy: true})
		}
		b.Events = append(b.Events, ares.Event{Revision: 1, Node: n}, ares.Event{Revision: 1, Session: &ares.Session{Node: id, Revision: 1}})
	}
	for _, id := range m.order {
		if r := m.runs[id]; r.Revision > 0 && !m.gone[id] {
			b.Events = append(b.Events, ares.Event{Revision: r.Revision, Run: &ares.RunEvent{Job: ares.JobID(id), Run: r.Clone()}})
		}
	}
	b.Events = append(b.Events, ares.Event{Revision: 1, Tenant: &ares.Tenant{ID: "t", Limits: ares.NoLimits()}})
	m.r.Store = append(m.r.Store, trace.Entry{At: m.tick(), Batch: b})
}

// This method records a client's call. The function `do` runs while the call is
// in progress.
func (m *made) call(c trace.Call, do func(c *trace.Call)) *trace.Call {
	c.Server, c.Start = "s1", m.tick()
	if c.Outcome == "" {
		c.Outcome = trace.OK
	}
	if do != nil {
		do(&c)
	}
	c.End = m.tick()
	m.r.Calls = append(m.r.Calls, c)
	return &m.r.Calls[len(m.r.Calls)-1]
}

func (m *made) accept(id string, members int) {
	m.jobs[id] = &ares.Job{ID: ares.JobID(id), AcceptedAt: m.wall(), Revision: m.rev + 1, Spec: ares.Spec{Tenant: "t", Members: members, GPUs: 1}.WithDefaults()}
	m.runs[id] = new(ares.NewRun(m.wall()))
	m.order = append(m.order, id)
	m.commit(ares.Event{Job: m.jobs[id]})
}

func (m *made) submit(id string, members int) {
	m.call(trace.Call{Op: trace.Submit, Job: id, Body: "x"}, func(*trace.Call) { m.accept(id, members) })
}

// This method applies a state transition to a job's run and records the change.
func (m *made) move(id string, step func(r *ares.Run) error) {
	m.t.Helper()
	r := m.runs[id]
	m.must(step(r))
	r.Revision = m.rev + 1
	if a := r.Current(); a != nil && a.Fence == 0 {
		a.Fence = ares.Fence(r.Revision)
	}
	m.commit(ares.Event{Run: &ares.RunEvent{Job: ares.JobID(id), Run: r.Clone()}})
}

// This method assigns seats to the job. Each seat is given as "node/device".
func (m *made) place(id string, seats ...string) {
	var out []ares.Seat
	for rank, s := range seats {
		node, device := s[:2], int(s[3]-'0')
		out = append(out, ares.Seat{Node: node, Rank: rank, CPUs: 1, Memory: 10, Shares: []ares.Share{{Device: fmt.Sprintf("%s-gpu%d", node, device), Index: device, Milli: 1000}}})
	}
	m.t.Helper()
	m.move(id, func(r *ares.Run) error { return r.Place(out, 0, m.wall()) })
}

func (m *made) seats(id string) []ares.SeatStatus { return m.runs[id].Last().Seats }

// This method claims every seat and makes the processes write their first
// lines.
func (m *made) start(id string) {
	m.t.Helper()
	for rank, h := range m.seats(id) {
		m.move(id, func(r *ares.Run) error { return r.Claim(m.jobs[id], r.Fence(), rank, h.Node, m.wall()) })
		m.say(id, rank, trace.Started, "")
		m.say(id, rank, trace.Beat, "")
	}
}

func (m *made) say(id string, rank int, verb trace.Verb, detail string) {
	a := m.runs[id].Last()
	m.r.Witnesses[id] = append(m.r.Witnesses[id], trace.Witness{
		Verb: verb, Attempt: a.Number, Fence: int64(a.Fence), Rank: rank, Node: a.Seats[rank].Node, Pid: 100*a.Number + rank, At: m.tick(), Detail: detail,
	})
}

// This method ends all ranks and releases their seats.
func (m *made) end(id string, outcome ares.Outcome) {
	m.t.Helper()
	fence := m.runs[id].Fence()
	for rank := range m.seats(id) {
		if outcome == ares.OutcomeSucceeded {
			m.say(id, rank, trace.Ended, "")
		}
		m.move(id, func(r *ares.Run) error {
			return r.Finish(m.jobs[id], fence, rank, ares.RankResult{Outcome: outcome}, m.wall())
		})
	}
	for rank := range m.seats(id) {
		m.move(id, func(r *ares.Run) error { return r.Release(fence, rank) })
	}
}

func (m *made) get(id string) *trace.Call {
	return m.call(trace.Call{Op: trace.Get, Job: id}, func(c *trace.Call) {
		if r := m.runs[id]; m.gone[id] {
			c.Phase = r.Phase
		} else {
			c.Phase, c.Attempt, c.Revision = r.Phase, r.Placed, max(r.Revision, m.jobs[id].Revision)
			if r.Stop != nil {
				c.Stop = string(r.Stop.Why)
			}
		}
	})
}

func (m *made) notFound(op trace.Op, id string) *trace.Call {
	return m.call(trace.Call{Op: op, Job: id, Outcome: trace.Refused, Code: string(ares.NotFound)}, nil)
}

func (m *made) cancel(id string) *trace.Call {
	return m.call(trace.Call{Op: trace.Cancel, Job: id, Phase: "cancelling"}, func(c *trace.Call) {
		m.move(id, func(r *ares.Run) error { return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: m.wall()}) })
		if m.runs[id].Phase == ares.Cancelled {
			c.Phase = ares.Cancelled
		}
	})
}

func (m *made) list() *trace.Call {
	return m.call(trace.Call{Op: trace.List, MinRevision: m.rev - 1, Revision: m.rev}, func(c *trace.Call) {
		for _, id := range m.order {
			if r := m.runs[id]; !m.gone[id] {
				c.Listed = append(c.Listed, trace.Listed{Job: id, Phase: r.Phase, Revision: max(r.Revision, m.jobs[id].Revision)})
			}
		}
	})
}

func (m *made) archive(id string) {
	m.gone[id] = true
	m.commit(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: id}}, ares.Event{Gone: ares.Gone{Kind: ares.KindRun, ID: id}})
}

// This method completes the record and returns it.
func (m *made) finish() *trace.Run {
	m.r.Meta.Healed, m.r.Meta.End = m.now, m.tick()
	return m.r
}

// This function returns a valid record. It contains a plain job, a gang, a
// cancelled job, a job whose node is lost, and an archived job.
func good(t *testing.T) *made {
	t.Helper()
	m := make1(t)
	m.notFound(trace.Get, "plain")
	m.submit("plain", 1)
	m.get("plain")
	m.call(trace.Call{Op: trace.Submit, Job: "plain", Body: "x", Duplicate: true}, nil)
	m.call(trace.Call{Op: trace.Submit, Job: "plain", Body: "y", Outcome: trace.Refused, Code: string(ares.Conflict)}, nil)
	m.call(trace.Call{Op: trace.Submit, Job: "plain", Body: "x", Outcome: trace.Refused, Code: string(ares.Exhausted)}, nil)
	m.place("plain", "n1/0")
	m.start("plain")
	m.get("plain")
	m.submit("gang", 2)
	m.place("gang", "n1/1", "n2/0")
	m.start("gang")
	m.list()
	m.end("plain", ares.OutcomeSucceeded)
	m.get("plain")
	m.call(trace.Call{Op: trace.Cancel, Job: "plain", Outcome: trace.Refused, Code: string(ares.Conflict)}, nil)
	m.end("gang", ares.OutcomeSucceeded)
	m.submit("stopped", 1)
	m.place("stopped", "n1/0")
	m.start("stopped")
	m.cancel("stopped")
	m.get("stopped")
	m.say("stopped", 0, trace.Termed, "")
	m.end("stopped", ares.OutcomeStopped)
	m.get("stopped")
	m.call(trace.Call{Op: trace.Cancel, Job: "stopped", Phase: ares.Cancelled}, nil)
	m.call(trace.Call{Op: trace.Submit, Job: "lost", Body: "x", Outcome: trace.Unknown}, func(*trace.Call) { m.accept("lost", 1) })
	m.place("lost", "n3/1")
	m.start("lost")
	m.r.Faults = append(m.r.Faults, trace.Fault{Kind: "node-kill", Target: "n3", At: m.tick()})
	m.move("lost", func(r *ares.Run) error { return r.Void(m.jobs["lost"], r.Fence(), 0, m.wall()) })
	m.get("lost")
	m.place("lost", "n2/1")
	m.start("lost")
	m.end("lost", ares.OutcomeSucceeded)
	m.archive("plain")
	m.list()
	m.get("plain")
	m.call(trace.Call{Op: trace.Submit, Job: "plain", Body: "x", Duplicate: true}, nil)
	return m
}

// This function returns a copy of a record, as if the record had been read back
// from its files.
func copied(t *testing.T, r *trace.Run) *trace.Run {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	out := &trace.Run{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// This function returns all recorded versions of a job's ares.Run, so that a
// test can tamper with them.
func runs(r *trace.Run, id string) []*ares.Run {
	var out []*ares.Run
	for i := range r.Store {
		for k := range r.Store[i].Batch.Events {
			if ev := r.Store[i].Batch.Events[k].Run; ev != nil && string(ev.Job) == id && !r.Store[i].Batch.Reset {
				out = append(out, &ev.Run)
			}
		}
	}
	return out
}

// This function returns the recorded calls of one kind about a job.
func calls(r *trace.Run, op trace.Op, id string) []*trace.Call {
	var out []*trace.Call
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Op == op && c.Job == id {
			out = append(out, c)
		}
	}
	return out
}
