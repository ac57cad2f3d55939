package cache

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

var Noon = storetest.Noon

func jobOf(n int, revision int64, edit ...func(*ares.Job)) *ares.Job {
	j := &ares.Job{
		Spec: ares.Spec{Tenant: fmt.Sprint("t", n%2), Name: fmt.Sprint("job-", n), Command: []string{"x"}, GPUs: 1, GPUMemoryMB: 10}.WithDefaults(),
		ID:   ares.NewJobID("t", fmt.Sprint(n)), AcceptedAt: Noon, Revision: revision,
	}
	for _, e := range edit {
		e(j)
	}
	return j
}

func JobEvent(j *ares.Job) ares.Event { return ares.Event{Revision: j.Revision, Job: j} }

func runEvent(rev int64, id ares.JobID, r ares.Run) ares.Event {
	r = r.Clone()
	r.Revision = rev
	return ares.Event{Revision: rev, Run: &ares.RunEvent{Job: id, Run: r}}
}

func goneEvent(rev int64, kind ares.Kind, id string) ares.Event {
	return ares.Event{Revision: rev, Gone: ares.Gone{Kind: kind, ID: id}}
}

func fixedView() *View { return NewView(func() time.Time { return Noon }) }

func ids(entries []*Entry) []ares.JobID {
	out := make([]ares.JobID, len(entries))
	for i, e := range entries {
		out[i] = e.Job.ID
	}
	return out
}

// TestPagesNeitherSkipNorRepeat lists jobs page by page. Many of these jobs were accepted in one transaction. The test
// uses one view that received the jobs one by one, and one that read them from a snapshot.
func TestPagesNeitherSkipNorRepeat(t *testing.T) {
	t.Parallel()
	live, restarted := fixedView(), fixedView()
	live.Apply(ares.Batch{Revision: 1, Reset: true})
	snapshot := ares.Batch{Revision: 100, Reset: true}
	n := 0
	for rev := int64(2); rev < 12; rev++ {
		batch := ares.Batch{Revision: rev}
		for range rev % 4 * 5 {
			n++
			batch.Events = append(batch.Events, JobEvent(jobOf(n, rev)))
		}
		live.Apply(batch)
		snapshot.Events = append(snapshot.Events, batch.Events...)
	}
	slices.SortFunc(snapshot.Events, func(a, b ares.Event) int { return cmp.Compare(a.Job.ID, b.Job.ID) }) // in the order of the store's keys
	restarted.Apply(snapshot)

	whole := ids(live.Jobs(Filter{}).Entries)
	if other := ids(restarted.Jobs(Filter{}).Entries); len(whole) != n || !slices.Equal(whole, other) {
		t.Errorf("a list depends on how the view learned of the jobs:\n%v\n%v", whole, other)
	}
	for name, v := range map[string]*View{"live": live, "restarted": restarted} {
		for _, limit := range []int{1, 2, 3, 7, 1000} {
			var got []ares.JobID
			f := Filter{Limit: limit}
			for pages := 0; ; pages++ {
				p := v.Jobs(f)
				if p.Total != n {
					t.Fatalf("%s: total %d, want %d", name, p.Total, n)
				}
				got = append(got, ids(p.Entries)...)
				if !p.More {
					break
				}
				last := p.Entries[len(p.Entries)-1].Job
				f.Before, f.After = last.Revision, last.ID
				if pages > n {
					t.Fatalf("%s: pages of %d never end", name, limit)
				}
			}
			if !slices.Equal(got, whole) {
				t.Errorf("%s, pages of %d: got\n%v, want\n%v", name, limit, got, whole)
			}
		}
	}
	// A page does not change when jobs are added to or removed from earlier pages.
	first := live.Jobs(Filter{Limit: 5})
	last := first.Entries[4].Job
	next := Filter{Limit: 5, Before: last.Revision, After: last.ID}
	want := ids(live.Jobs(next).Entries)
	live.Apply(ares.Batch{Revision: 50, Events: []ares.Event{JobEvent(jobOf(9999, 50)), goneEvent(50, ares.KindJob, string(last.ID))}})
	if got := ids(live.Jobs(next).Entries); !slices.Equal(got, want) {
		t.Errorf("the second page moved: %v, was %v", got, want)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	v := fixedView()
	v.Apply(ares.Batch{Revision: 5, Reset: true, Events: []ares.Event{
		JobEvent(jobOf(1, 2)), JobEvent(jobOf(2, 3)), JobEvent(jobOf(12, 4)),
		runEvent(5, jobOf(2, 3).ID, ares.Run{Phase: ares.Cancelled}),
	}})
	for name, c := range map[string]struct {
		f    Filter
		want []int
	}{
		"all":     {Filter{}, []int{12, 2, 1}},
		"tenant":  {Filter{Tenant: "t0"}, []int{12, 2}},
		"name":    {Filter{Name: "b-1"}, []int{12, 1}},
		"phase":   {Filter{Phases: []ares.Phase{ares.Cancelled, ares.Failed}}, []int{2}},
		"nothing": {Filter{Tenant: "nobody"}, nil},
	} {
		var want []ares.JobID
		for _, n := range c.want {
			want = append(want, ares.NewJobID("t", fmt.Sprint(n)))
		}
		p := v.Jobs(c.f)
		if got := ids(p.Entries); !slices.Equal(got, want) || p.Total != len(want) || p.More || p.Revision != 5 {
			t.Errorf("%s: got %v (total %d, more %v, revision %d), want %v", name, got, p.Total, p.More, p.Revision, want)
		}
	}
}

// The type `sums` contains everything that a view counts.
type sums struct {
	Use     map[string]ares.Use
	Waiting map[string]int
	Phases  map[ares.Phase]int
	Seats   map[string][]ares.JobID
	Jobs    []ares.JobID
	All     int
}

func sumsOf(v *View) sums {
	s := sums{Use: map[string]ares.Use{}, Waiting: map[string]int{}, Phases: v.Phases(), Seats: map[string][]ares.JobID{}, All: v.Waiting()}
	maps.DeleteFunc(s.Phases, func(_ ares.Phase, n int) bool { return n == 0 })
	for _, tenant := range []string{"t0", "t1"} {
		s.Use[tenant], s.Waiting[tenant] = v.Use(tenant)
	}
	for n := range 3 {
		node := fmt.Sprint("n", n)
		entries, _, _ := v.SeatsOn(node)
		s.Seats[node] = ids(entries)
	}
	s.Jobs = ids(v.Jobs(Filter{}).Entries)
	return s
}

// The type `mover` makes random transitions of jobs.
type mover struct {
	t    *rapid.T
	view *View
	rev  int64
	n    int
	jobs map[ares.JobID]*ares.Job
	runs map[ares.JobID]ares.Run
}

// The method `pick` chooses a job in a way that does not depend on map order.
func (m *mover) pick() (*ares.Job, ares.Run, bool) {
	all := slices.Sorted(maps.Keys(m.jobs))
	if len(all) == 0 {
		return nil, ares.Run{}, false
	}
	id := rapid.SampledFrom(all).Draw(m.t, "job")
	r := m.runs[id]
	return m.jobs[id], r.Clone(), true
}

// The method `apply` sends the view one revision with a job's new run.
func (m *mover) apply(j *ares.Job, r ares.Run, err error) {
	if err != nil {
		return // the run does not allow this transition
	}
	m.rev++
	if a := r.Current(); a != nil && a.Fence == 0 {
		a.Fence = ares.Fence(m.rev)
	}
	r.Revision = m.rev
	m.runs[j.ID] = r
	m.view.Apply(ares.Batch{Revision: m.rev, Events: []ares.Event{runEvent(m.rev, j.ID, r)}})
}

func (m *mover) accept() {
	m.rev++
	batch := ares.Batch{Revision: m.rev}
	for range rapid.IntRange(1, 4).Draw(m.t, "jobs") {
		m.n++
		j := jobOf(m.n, m.rev, func(j *ares.Job) { j.Members = rapid.IntRange(1, 3).Draw(m.t, "members") })
		m.jobs[j.ID], m.runs[j.ID] = j, ares.NewRun(Noon)
		batch.Events = append(batch.Events, JobEvent(j))
	}
	m.view.Apply(batch)
}

func (m *mover) place() {
	j, r, ok := m.pick()
	if !ok {
		return
	}
	var seats []ares.Seat
	for rank := range j.Members {
		seat := ares.Seat{Node: fmt.Sprint("n", rapid.IntRange(0, 2).Draw(m.t, "node")), Rank: rank, CPUs: 2, Memory: 5}
		seat.Shares = []ares.Share{{Device: "d", Milli: rapid.SampledFrom([]int{1000, 300}).Draw(m.t, "milli")}}
		seats = append(seats, seat)
	}
	m.apply(j, r, r.Place(seats, 1, Noon))
}

// The method `seat` makes one transition of one seat of the job's last attempt.
func (m *mover) seat() {
	j, r, ok := m.pick()
	if !ok || r.Last() == nil {
		return
	}
	a := r.Last()
	rank := rapid.IntRange(0, len(a.Seats)-1).Draw(m.t, "rank")
	var err error
	switch rapid.IntRange(0, 4).Draw(m.t, "step") {
	case 0:
		err = r.Claim(j, a.Fence, rank, a.Seats[rank].Node, Noon)
	case 1:
		outcome := rapid.SampledFrom([]ares.Outcome{ares.OutcomeSucceeded, ares.OutcomeFailed, ares.OutcomeLost}).Draw(m.t, "outcome")
		err = r.Finish(j, a.Fence, rank, storetest.Result(outcome), Noon)
	case 2:
		err = r.Release(a.Fence, rank)
	case 3:
		err = r.Void(j, a.Fence, rank, Noon)
	case 4:
		r.Clear(a.Seats[rank].Node, nil, math.MaxInt64)
	}
	m.apply(j, r, err)
}

func (m *mover) stop() {
	if j, r, ok := m.pick(); ok {
		m.apply(j, r, r.RequestStop(ares.Stop{Why: rapid.SampledFrom([]ares.StopWhy{ares.StopCancel, ares.StopDrain}).Draw(m.t, "why"), By: "me", At: Noon}))
	}
}

func (m *mover) ready() {
	if j, r, ok := m.pick(); ok {
		m.apply(j, r, r.Ready(Noon.Add(time.Hour)))
	}
}

func (m *mover) archive() {
	if j, r, ok := m.pick(); ok && r.Phase.Final() && r.Free() {
		m.drop(j)
	}
}

func (m *mover) drop(j *ares.Job) {
	m.rev++
	delete(m.jobs, j.ID)
	delete(m.runs, j.ID)
	m.view.Apply(ares.Batch{Revision: m.rev, Events: []ares.Event{
		goneEvent(m.rev, ares.KindJob, string(j.ID)), goneEvent(m.rev, ares.KindRun, string(j.ID)),
	}})
}

// The method `check` compares two sets of sums. The sums of the first view are updated step by step. The second view
// reads the same records as a snapshot.
func (m *mover) check() {
	snapshot := ares.Batch{Revision: m.rev, Reset: true}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		snapshot.Events = append(snapshot.Events, JobEvent(m.jobs[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		if r := m.runs[id]; r.Revision > 0 {
			snapshot.Events = append(snapshot.Events, runEvent(r.Revision, id, r))
		}
	}
	fresh := fixedView()
	fresh.Apply(snapshot)
	if got, want := sumsOf(m.view), sumsOf(fresh); !reflect.DeepEqual(got, want) {
		m.t.Fatalf("step by step %+v\nat once %+v", got, want)
	}
}

// The method `end` ends every job and checks that all sums are zero.
func (m *mover) end() {
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		j, r := m.jobs[id], m.runs[id]
		r = r.Clone()
		m.apply(j, r, r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: Noon}))
		for {
			r = m.runs[id]
			r = r.Clone()
			a := r.Current()
			if a == nil {
				break
			}
			for k := range a.Seats {
				if a.Seats[k].Result == nil {
					m.apply(j, r, r.Finish(j, a.Fence, a.Seats[k].Rank, storetest.Result(ares.OutcomeStopped), Noon))
					break
				}
			}
		}
		for i := range r.Attempts {
			for k := range r.Attempts[i].Seats {
				r = m.runs[id]
				r = r.Clone()
				m.apply(j, r, r.Release(r.Attempts[i].Fence, r.Attempts[i].Seats[k].Rank))
			}
		}
	}
	m.check()
	for _, tenant := range []string{"t0", "t1"} {
		if use, waiting := m.view.Use(tenant); use != (ares.Use{}) || waiting != 0 {
			m.t.Fatalf("everything has ended, yet tenant %s holds %+v and %d wait", tenant, use, waiting)
		}
	}
}

// TestSumsAreKept checks that sums updated step by step equal sums computed from a snapshot. The
// test also checks that finished jobs use no resources.
func TestSumsAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &mover{t: t, view: fixedView(), rev: 1, jobs: map[ares.JobID]*ares.Job{}, runs: map[ares.JobID]ares.Run{}}
		m.view.Apply(ares.Batch{Revision: 1, Reset: true})
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(*rapid.T) { m.accept() }, "place": func(*rapid.T) { m.place() }, "seat": func(*rapid.T) { m.seat() },
			"seat again": func(*rapid.T) { m.seat() }, "stop": func(*rapid.T) { m.stop() }, "ready": func(*rapid.T) { m.ready() },
			"archive": func(*rapid.T) { m.archive() }, "": func(*rapid.T) { m.check() },
		})
		m.end()
	})
}

// TestTwoSeatsOnOneNode frees one of the two seats that a job has on a node. The job must still be listed on the node.
func TestTwoSeatsOnOneNode(t *testing.T) {
	t.Parallel()
	v := fixedView()
	j := jobOf(1, 2, func(j *ares.Job) { j.Members = 2 })
	r := ares.NewRun(Noon)
	if err := r.Place([]ares.Seat{{Node: "n0", Rank: 0, CPUs: 1}, {Node: "n0", Rank: 1, CPUs: 1}}, 0, Noon); err != nil {
		t.Fatal(err)
	}
	r.Attempts[0].Fence, r.Attempts[0].Outcome = 3, ares.OutcomeSucceeded
	v.Apply(ares.Batch{Revision: 3, Reset: true, Events: []ares.Event{JobEvent(j), runEvent(3, j.ID, r)}})
	if use, _ := v.Use("t1"); use.CPUs != 2 || use.GPUMemoryMB != 20 || use.Jobs != 1 {
		t.Errorf("two seats hold %+v", use)
	}
	for rank, want := range []int{1, 0} {
		if err := r.Release(3, rank); err != nil {
			t.Fatal(err)
		}
		_, _, changed := v.SeatsOn("n0")
		rev := int64(4 + rank)
		v.Apply(ares.Batch{Revision: rev, Events: []ares.Event{runEvent(rev, j.ID, r)}})
		select {
		case <-changed:
		default:
			t.Error("the release did not wake the reader")
		}
		use, _ := v.Use("t1")
		if entries, _, _ := v.SeatsOn("n0"); len(entries) != want || use.CPUs != want || use.GPUMemoryMB != 10*want {
			t.Errorf("with %d seat left the node has %d jobs that hold %+v", want, len(entries), use)
		}
	}
}

func TestSeatsOnWakesTheNodesConcerned(t *testing.T) {
	t.Parallel()
	v := fixedView()
	j := jobOf(1, 2)
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{JobEvent(j)}})
	_, _, mine := v.SeatsOn("n0")
	_, _, other := v.SeatsOn("n1")
	woken := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	r := ares.NewRun(Noon)
	if err := r.Place([]ares.Seat{{Node: "n0"}}, 0, Noon); err != nil {
		t.Fatal(err)
	}
	v.Apply(ares.Batch{Revision: 3, Events: []ares.Event{runEvent(3, j.ID, r)}})
	if !woken(mine) || woken(other) {
		t.Error("a seat on n0 must wake readers of n0 only")
	}
	entries, rev, mine := v.SeatsOn("n0")
	if len(entries) != 1 || rev != 3 {
		t.Errorf("got %v at %d", entries, rev)
	}
	v.Apply(ares.Batch{Revision: 3, Events: []ares.Event{runEvent(3, j.ID, r)}})
	if woken(mine) {
		t.Error("a revision that was applied before must not wake readers")
	}
	v.Apply(ares.Batch{Revision: 4, Events: []ares.Event{{Revision: 4, Session: &ares.Session{Node: "n1"}}}})
	if !woken(other) || woken(mine) {
		t.Error("a session of n1 must wake readers of n1 only")
	}
	v.Apply(ares.Batch{Revision: 9, Reset: true})
	if !woken(mine) {
		t.Error("a snapshot must wake all readers")
	}
	if entries, _, _ := v.SeatsOn("n0"); len(entries) != 0 {
		t.Errorf("the snapshot has no such job, yet %v", entries)
	}
}

func TestNodeStates(t *testing.T) {
	t.Parallel()
	now := Noon
	v := NewView(func() time.Time { return now })
	state := func() ares.NodeState { return v.Node("n").State(now) }
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{
		{Revision: 1, Node: &ares.Node{ID: "n", CPUs: 4, Revision: 1}}, {Revision: 2, Session: &ares.Session{Node: "n", Revision: 2}},
	}})
	held := v.Node("n")
	if state() != ares.Online {
		t.Errorf("with a session it is %s", state())
	}
	v.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Cordon: &ares.Cordon{Node: "n", By: "me"}}}})
	if state() != ares.Cordoned || held.Cordon != nil {
		t.Errorf("cordoned it is %s; an entry that a reader holds must not change", state())
	}
	v.Apply(ares.Batch{Revision: 4, Events: []ares.Event{goneEvent(4, ares.KindSession, "n")}})
	if state() != ares.Suspect {
		t.Errorf("just gone it is %s", state())
	}
	now = now.Add(ares.DefaultLostAfter)
	// A new snapshot must not change the time at which the node lost its session.
	v.Apply(ares.Batch{Revision: 5, Reset: true, Events: []ares.Event{{Revision: 1, Node: &ares.Node{ID: "n", Revision: 1}}}})
	if state() != ares.Offline {
		t.Errorf("long gone it is %s", state())
	}
	v.Apply(ares.Batch{Revision: 6, Events: []ares.Event{goneEvent(6, ares.KindNode, "n")}})
	if v.Node("n") != nil {
		t.Error("the node is still there")
	}
}
