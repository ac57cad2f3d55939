package federation_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A playground plays the agents of several clusters, and everything that makes jobs move: attempts fail, clusters are drained, links are
// cut. It knows which processes are alive, and checks that a job never has two (O7) and that its tokens only grow (O9).
type playground struct {
	t       *testing.T
	h       *hub
	members []*member
	rand    *rand.Rand
	clock   *atomic.Int64            // how far the hub's clock is ahead, in nanoseconds
	alive   map[ares.JobID]process   // from the claim to the end
	tokens  map[ares.JobID]int64     // the highest so far
	visited map[ares.JobID][]*member // clusters in which it was started, without repetitions in a row
}

// A process is an attempt whose seat was claimed.
type process struct {
	m   *member
	ref store.SeatRef
}

// TestMovesNeverOverlap plays until every job has ended.
func TestMovesNeverOverlap(t *testing.T) {
	p := &playground{
		t: t, rand: rand.New(rand.NewPCG(7, 21)), clock: &atomic.Int64{},
		alive: map[ares.JobID]process{}, tokens: map[ares.JobID]int64{}, visited: map[ares.JobID][]*member{},
	}
	p.h = newHub(t, func(h *hub) {
		h.choosing = true
		h.now = func() time.Time { return time.Now().Add(time.Duration(p.clock.Load())) }
	})
	for _, name := range []string{"a", "b", "c"} {
		p.members = append(p.members, newIdleMember(t, p.h, name, func(m *member) { m.lateAfter = 10 * time.Millisecond }))
		p.h.awaitKnown(name)
	}
	const retries = 100
	var jobs []ares.JobID
	for i := range 12 {
		jobs = append(jobs, p.h.submit(func(s *ares.Spec) {
			s.GPUs = 1 + i%4
			s.Retry = ares.RetryPolicy{MaxRetries: new(retries), InitialBackoffSeconds: 0.1, Multiplier: 1.2, MaxBackoffSeconds: 1}
			switch i % 6 {
			case 4:
				fenced(s)
			case 5:
				s.Mode = ares.AtMostOnce
			}
		}))
	}
	const enough = 30 // moves
	controltest.Await(t, p.h.view, "jobs to move", func() bool {
		p.step(false)
		return p.moves() >= enough || p.over(jobs)
	})
	for _, m := range p.members {
		m.wire.set(false)
		p.decide(m, store.ClusterReady, false)
	}
	controltest.Await(t, p.h.view, "every job to end", func() bool {
		p.step(true)
		return p.over(jobs)
	})
	for _, id := range jobs {
		e := p.h.view.Job(id)
		if r := &e.Run; r.Phase != ares.Succeeded && r.Phase != ares.Failed || r.Retries > retries || len(p.visited[id]) == 0 {
			t.Errorf("job %s is %s after %d retries: %s", id, r.Phase, r.Retries, r.Reason)
		} else if last := p.visited[id][len(p.visited[id])-1]; r.Cluster != last.name || e.Job.Mode == ares.AtMostOnce && len(p.visited[id]) > 1 {
			t.Errorf("%s job %s ended in cluster %q, and was started in %d clusters, in %s at last", e.Job.Mode, id, r.Cluster, len(p.visited[id]), last.name)
		}
	}
	if n := p.moves(); n < enough {
		t.Errorf("the jobs have moved only %d times", n)
	}
}

// The method `moves` counts the moves so far.
func (p *playground) moves() (n int) {
	for _, v := range p.visited { // order-free: a sum
		n += len(v) - 1
	}
	return n
}

func (p *playground) over(jobs []ares.JobID) bool {
	for _, id := range jobs {
		if e := p.h.view.Job(id); e == nil || !e.Run.Phase.Final() {
			return false
		}
	}
	return true
}

// The method `step` does something with each attempt. While the playground heals, attempts only succeed, and the rest stays whole.
func (p *playground) step(heals bool) {
	m := p.members[p.rand.IntN(len(p.members))]
	switch n := p.rand.IntN(40); {
	case n == 39:
		p.clock.Add(int64(ares.LeftFor)) // so that clusters get jobs again that they gave back
	case heals:
	case n == 0:
		p.decide(m, store.ClusterDraining, true)
	case n < 4:
		p.decide(m, store.ClusterReady, false)
	case n == 4:
		m.wire.set(true)
	case n < 8:
		m.wire.set(false)
	}
	for _, m := range p.members {
		controltest.CaughtUp(p.t, m.s, m.view)
		var active []*cache.Entry
		m.view.Search(func(*ares.Job) bool { return true }, func(e *cache.Entry) bool {
			if a := e.Run.Current(); a != nil && a.Fence != 0 {
				active = append(active, e)
			}
			return true
		})
		for _, e := range active {
			p.play(m, e.Job, &e.Run, heals)
		}
	}
	controltest.CaughtUp(p.t, p.h.s, p.h.view)
}

// The method `play` lets one attempt go on.
func (p *playground) play(m *member, j *ares.Job, r *ares.Run, heals bool) {
	a := r.Current()
	ref := store.SeatRef{Job: j.ID, Fence: a.Fence, Node: m.node.ID}
	live, isAlive := p.alive[j.ID]
	switch {
	case isAlive && live == (process{m, ref}):
		p.finish(live, r.Stop != nil, heals)
	case r.Stop != nil:
		_ = m.s.Decline(p.t.Context(), ref, m.node.Session, time.Now()) // the view may be late
	case m.s.Claim(p.t.Context(), ref, m.node.Session, time.Now()) == nil:
		token := r.FencingToken(j, a)
		if isAlive {
			p.t.Errorf("job %s starts in cluster %s while it runs in cluster %s", j.ID, m.name, live.m.name)
		}
		if token <= p.tokens[j.ID] {
			p.t.Errorf("job %s starts in cluster %s with the token %d after %d", j.ID, m.name, token, p.tokens[j.ID])
		}
		p.alive[j.ID], p.tokens[j.ID] = process{m, ref}, token
		if v := p.visited[j.ID]; len(v) == 0 || v[len(v)-1] != m {
			p.visited[j.ID] = append(v, m)
		}
	}
}

// The method `finish` ends a process, or lets it live a while longer.
func (p *playground) finish(live process, stopped, heals bool) {
	outcome := ares.OutcomeFailed
	switch n := p.rand.IntN(10); {
	case stopped:
		outcome = ares.OutcomeStopped
	case heals:
		outcome = ares.OutcomeSucceeded
	case n < 5:
		return
	}
	delete(p.alive, live.ref.Job)
	if _, err := live.m.s.Finish(p.t.Context(), live.ref, storetest.Result(outcome), time.Now()); err != nil {
		p.t.Fatal(err)
	}
	storetest.Release(p.t, live.m.s, live.ref)
}

// The method `decide` writes what an administrator decides about a cluster.
func (p *playground) decide(m *member, to store.ClusterState, stops bool) {
	p.t.Helper()
	if _, err := p.h.s.UpdateCluster(p.t.Context(), m.name, func(c *store.Cluster) error {
		c.Decided, c.Stops = to, stops
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
}
