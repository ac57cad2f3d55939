package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// hubModel is the reference for one job of a hub: the table of the design, without a store.
type hubModel struct {
	state    string // waiting, offered, bound, final
	epoch    int64
	owner    int    // of a bound job
	inc      string // of the owner
	cancel   bool
	excluded [2]bool
	last     int64 // the last bound epoch
	phase    ares.Phase
	once     bool
}

// release is what becomes of a job without an owner.
func (m *hubModel) release(started bool) {
	switch {
	case m.cancel:
		m.state, m.phase = "final", ares.Cancelled
	case started && m.once:
		m.state, m.phase = "final", ares.Lost
	default:
		m.state = "waiting"
	}
	m.epoch = 0
}

// hubRun drives a store and the reference with the same random verbs.
type hubRun struct {
	*testing.T

	s        *store.Store
	lead     *store.Leadership
	random   *rand.Rand
	clusters [2]store.Cluster
	job      *ares.Job
	model    hubModel
	epochs   []int64 // all epochs so far, for late messages
	revision int64   // of the owner's run
	log      []string
}

// TestGrantsFollowTheModel compares the verbs of a hub with a reference, over random interleavings with late and repeated
// messages. Every verb is called twice: the second call must change nothing.
func TestGrantsFollowTheModel(t *testing.T) {
	s := storetest.Embedded(t)
	lead, _ := storetest.NewLead(t, s)
	for seed := range uint64(40) {
		r := &hubRun{T: t, s: s, lead: lead, random: rand.New(rand.NewPCG(seed, 21)), model: hubModel{state: "waiting"}, revision: 1}
		for i := range r.clusters {
			r.clusters[i] = storetest.NewCluster(t, s, "i0")
		}
		r.model.once = seed%4 == 3
		r.job = storetest.NewJob(t, s, func(spec *ares.Spec) {
			if r.model.once {
				spec.Mode = ares.AtMostOnce
			}
		})
		for range 30 {
			r.step()
			r.compare()
			if t.Failed() {
				t.Fatalf("seed %d: %q", seed, r.log)
			}
		}
	}
}

func (r *hubRun) step() {
	verbs := []func() func() error{r.offer, r.offer, r.withdraw, r.bind, r.bind, r.bind, r.returned, r.taken, r.final, r.mirror, r.regrant, r.rebind}
	if r.random.IntN(12) == 0 {
		verbs = []func() func() error{r.cancel}
	}
	do := verbs[r.random.IntN(len(verbs))]()
	first := do()
	before, err := r.s.Revision(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	second := do()
	after, err := r.s.Revision(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	if before != after || ares.CodeOf(first) != ares.CodeOf(second) {
		r.Errorf("repeated: %v, then %v; the store went from %d to %d", first, second, before, after)
	}
}

func (r *hubRun) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// anEpoch returns the current epoch, or that of an earlier or later grant.
func (r *hubRun) anEpoch() int64 {
	if n := len(r.epochs); n > 0 && r.random.IntN(3) == 0 {
		return r.epochs[r.random.IntN(n)]
	}
	return r.model.epoch
}

// expect checks whether a verb succeeds.
func (r *hubRun) expect(what string, err error, ok bool) error {
	r.Helper()
	if (err == nil) != ok {
		r.Errorf("%s: %v, want success %t", what, err, ok)
	}
	return err
}

func (r *hubRun) offer() func() error {
	m := &r.model
	clusters := []string{r.clusters[0].Name, r.clusters[1].Name}
	ok := m.state == "waiting" && !m.excluded[0] && !m.excluded[1]
	if m.excluded[0] || m.excluded[1] {
		clusters = nil
		for i := range m.excluded {
			if !m.excluded[i] {
				clusters = append(clusters, r.clusters[i].Name)
			}
		}
		ok = m.state == "waiting" && len(clusters) > 0
	}
	repeats := false
	return func() error {
		made, err := r.s.Offer(r.Context(), r.lead, []store.Offer{{Job: r.job.ID, Clusters: clusters, RunRevision: storetest.Get(r, r.s, r.job.ID).Run.Revision, At: storetest.Noon}})
		r.note("offer")
		if ok && !repeats {
			if len(made) != 1 {
				r.Fatalf("offer: %v, %v", made, err)
			}
			if n := len(r.epochs); n > 0 && made[0].Epoch <= r.epochs[n-1] {
				r.Errorf("the epoch %d follows %d", made[0].Epoch, r.epochs[n-1])
			}
			m.state, m.epoch, repeats = "offered", made[0].Epoch, true
			r.epochs = append(r.epochs, m.epoch)
		} else if len(made) > 0 && m.state != "offered" {
			r.Errorf("offered a job that is %s", m.state)
		}
		return err
	}
}

func (r *hubRun) withdraw() func() error {
	m, epoch := &r.model, r.anEpoch()
	refused := m.state == "bound" && epoch == m.epoch
	hit := m.state == "offered" && epoch == m.epoch
	return func() error {
		r.note("withdraw %d", epoch)
		err := r.expect("withdraw", r.s.Withdraw(r.Context(), r.job.ID, epoch), !refused)
		if hit {
			m.state, m.epoch, hit = "waiting", 0, false
		}
		return err
	}
}

func (r *hubRun) bind() func() error {
	m, c, epoch := &r.model, r.random.IntN(2), r.anEpoch()
	inc := "i0"
	if r.random.IntN(6) == 0 {
		inc = "other"
	}
	fresh := m.state == "offered" && epoch == m.epoch && inc == "i0" && !m.excluded[c]
	again := m.state == "bound" && epoch == m.epoch && m.owner == c && m.inc == inc && inc == "i0"
	return func() error {
		r.note("bind %d to %d/%s", epoch, c, inc)
		_, err := r.s.Bind(r.Context(), store.Claim{Job: r.job.ID, Epoch: epoch, Cluster: r.clusters[c].Name, Incarnation: inc, At: storetest.Noon})
		if fresh {
			m.state, m.owner, m.inc, m.last = "bound", c, inc, m.epoch
		}
		return r.expect("bind", err, fresh || again)
	}
}

// report sends a report that may be late, or of another cluster or incarnation. It calls `then` if it counts.
func (r *hubRun) report(outcome store.GrantOutcome, run *ares.Run, then func(c int)) func() error {
	m, c, epoch, inc := &r.model, r.random.IntN(2), r.anEpoch(), "i0"
	if m.state == "bound" && r.random.IntN(2) == 0 {
		c, inc = m.owner, m.inc
	}
	hit := m.state == "bound" && m.owner == c && m.inc == inc && m.epoch == epoch
	return func() error {
		r.note("report %s of %d by %d/%s", outcome, epoch, c, inc)
		err := r.s.Report(r.Context(), store.Report{
			Job: r.job.ID, Epoch: epoch, Cluster: r.clusters[c].Name, Incarnation: inc, Outcome: outcome, Run: run, Why: "random", At: storetest.Noon,
		})
		if hit {
			hit = false
			then(c)
			return r.expect("report", err, true)
		}
		return err
	}
}

func (r *hubRun) returned() func() error {
	return r.report(store.GrantReturned, nil, func(int) { r.model.release(false) })
}

func (r *hubRun) taken() func() error {
	if r.random.IntN(3) > 0 {
		return r.returned()
	}
	return r.report(store.GrantTaken, nil, func(c int) { r.model.excluded[c] = true; r.model.release(false) })
}

func (r *hubRun) ownerRun(phase ares.Phase) *ares.Run {
	r.revision++
	run := ares.NewRun(storetest.Noon)
	run.Phase, run.Revision = phase, r.revision
	return &run
}

func (r *hubRun) final() func() error {
	if r.random.IntN(3) > 0 {
		return r.mirror()
	}
	run := r.ownerRun(ares.Succeeded)
	return r.report(store.GrantFinal, run, func(int) { r.model.state, r.model.phase, r.model.epoch = "final", ares.Succeeded, 0 })
}

func (r *hubRun) mirror() func() error {
	m, c, epoch, run := &r.model, r.random.IntN(2), r.anEpoch(), r.ownerRun(ares.Pending)
	return func() error {
		r.note("mirror of %d by %d", epoch, c)
		return r.expect("mirror", r.s.Mirror(r.Context(), []store.Report{{Job: r.job.ID, Epoch: epoch, Cluster: r.clusters[c].Name, Incarnation: m.inc, Run: run}}), true)
	}
}

// regrant takes the job from its owner, which was declared dead.
func (r *hubRun) regrant() func() error {
	m := &r.model
	if m.state != "bound" || r.random.IntN(2) == 0 {
		return r.bind()
	}
	old, hit := m.epoch, true
	return func() error {
		r.note("take back %d", old)
		err := r.s.Regrant(r.Context(), r.lead, nil, store.Regrant{Job: r.job.ID, Old: old, To: store.RegrantReleased, Cluster: r.clusters[m.owner].Name, Why: "dead", At: storetest.Noon})
		if hit {
			hit = false
			m.release(true)
		}
		return r.expect("take back", err, true)
	}
}

// rebind gives the job to another incarnation of its owner, and back.
func (r *hubRun) rebind() func() error {
	m := &r.model
	if m.state != "bound" {
		return r.offer()
	}
	to := "i1"
	if m.inc == "i1" {
		to = "i0"
	}
	return func() error {
		r.note("rebind %d to %s", m.epoch, to)
		err := r.s.Regrant(r.Context(), nil, nil, store.Regrant{Job: r.job.ID, Old: m.epoch, To: store.RegrantBound, Epoch: m.epoch, Cluster: r.clusters[m.owner].Name, Incarnation: to, At: storetest.Noon})
		m.inc = to
		return r.expect("rebind", err, true)
	}
}

func (r *hubRun) cancel() func() error {
	m := &r.model
	refused := m.state == "final" && m.phase != ares.Cancelled
	return func() error {
		r.note("cancel")
		_, err := r.s.RequestStop(r.Context(), r.job.ID, cancelIt)
		switch m.state {
		case "waiting", "offered":
			m.state, m.phase = "final", ares.Cancelled
		case "bound":
			m.cancel = true
		}
		return r.expect("cancel", err, !refused)
	}
}

// compare checks that the store has what the reference has. The offer of a cancelled job is left for the leader.
func (r *hubRun) compare() {
	m := &r.model
	run, g := storetest.Get(r, r.s, r.job.ID).Run, storetest.GrantOf(r, r.s, r.job.ID)
	switch {
	case m.state == "final":
		if run.Phase != m.phase || g != nil && g.State == ares.GrantBound {
			r.Errorf("the ended job is %s with the grant %+v, want %s", run.Phase, g, m.phase)
		}
		return
	case run.Phase.Final():
		r.Errorf("the job is %s, want it %s", run.Phase, m.state)
	}
	if (g == nil) != (m.state == "waiting") {
		r.Errorf("the grant is %+v, want the job %s", g, m.state)
		return
	}
	if m.state == "bound" && !g.IsHeldBy(r.clusters[m.owner].Name, m.inc, m.epoch) || m.state == "offered" && (g.State != ares.GrantOffered || g.Epoch != m.epoch) {
		r.Errorf("the grant is %+v, want %+v", g, m)
	}
	if (run.Cluster != "") != (m.state == "bound") || (run.Stop != nil) != m.cancel || run.Epoch != m.last {
		r.Errorf("the run has cluster %q, stop %v, epoch %d; want %+v", run.Cluster, run.Stop, run.Epoch, m)
	}
}

// TestGrantedJobsFollowTheModel does the same for a member: the reference is the highest epoch that the member has, and
// whether it still holds it.
func TestGrantedJobsFollowTheModel(t *testing.T) {
	s := storetest.Embedded(t)
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 22))
		job, held, highest := storetest.Granted(t, s, 1), false, int64(0)
		var log []string
		for range 25 {
			epoch := 1 + random.Int64N(highest+3)
			verb := random.IntN(4)
			var want any
			do := func() (any, error) {
				switch verb {
				case 0, 1:
					got, err := s.Accept(t.Context(), storetest.GrantedAgain(job, epoch), storetest.Noon)
					return got, err
				case 2:
					_, err := s.Return(t.Context(), job.ID, epoch, "random", storetest.Noon)
					return "", err
				default:
					_, err := s.Drop(t.Context(), job.ID, epoch, "random", storetest.Noon)
					return "", err
				}
			}
			ok := true
			switch {
			case verb <= 1 && (epoch < highest || epoch == highest && !held):
				want = store.AcceptedIgnored
			case verb <= 1 && epoch == highest:
				want = store.AcceptedRepeated
			case verb <= 1 && held:
				want, ok = store.Accepted(""), false
			case verb <= 1:
				want, held, highest = store.AcceptedNew, true, epoch
			default:
				want, ok = "", epoch == highest && highest > 0
				if ok {
					held = false
				}
			}
			log = append(log, fmt.Sprintf("%d of %d", verb, epoch))
			if got, err := do(); got != want || (err == nil) != ok {
				t.Fatalf("seed %d: %q: %v, %v; want %v, success %t", seed, log, got, err, want, ok)
			}
			if want == store.AcceptedNew {
				want = store.AcceptedRepeated
			}
			before, _ := s.Revision(t.Context())
			got, err := do()
			after, _ := s.Revision(t.Context())
			if got != want || (err == nil) != ok || before != after {
				t.Fatalf("seed %d: %q repeated: %v, %v, the store went from %d to %d", seed, log, got, err, before, after)
			}
			if highest == 0 {
				continue
			}
			snap := storetest.Get(t, s, job.ID)
			if snap.Job.Origin.Epoch != highest || (snap.Run.Phase == ares.Returned) == held {
				t.Fatalf("seed %d: %q: the job has the grant %d and is %s; want %d, held %t", seed, log, snap.Job.Origin.Epoch, snap.Run.Phase, highest, held)
			}
		}
	}
}
