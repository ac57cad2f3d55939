package federation

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// bidTime is how long the hub waits for better claims after the first one.
const bidTime = 150 * time.Millisecond

// A bid is one claim with what its cluster expects.
type bid struct {
	s     *session
	claim *apipb.GrantClaim
	rank  int // place of the cluster in the offer
}

// isBetterThan compares bids: the earlier start wins, then the cluster that the hub prefers.
func (b *bid) isBetterThan(o *bid) bool {
	if x, y := b.claim.GetBid().GetStartDelayMs(), o.claim.GetBid().GetStartDelayMs(); x != y {
		return x < y
	}
	return b.rank < o.rank
}

// An auction collects the claims of one offer.
type auction struct {
	epoch int64
	bids  []bid
}

// The method `claim` handles a claim. The claim of the first cluster of the offer wins at once if the job would start
// now. Other claims wait a moment for better ones.
func (s *session) claim(m *apipb.GrantClaim) error {
	id := ares.JobID(m.GetJobId())
	g := s.t.grant(id)
	rank := 0
	alone := true
	if g != nil && g.Epoch == m.GetEpoch() && g.State == ares.GrantOffered {
		for i, c := range g.Clusters {
			if c == s.hello.Cluster {
				rank = i
			}
		}
		alone = s.t.connected(g.Clusters) < 2
	}
	b := bid{s: s, claim: m, rank: rank}
	if alone || rank == 0 && m.GetBid().GetStartDelayMs() == 0 {
		return b.settle()
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	a := s.t.auctions[id]
	if a == nil || a.epoch != m.GetEpoch() {
		a = &auction{epoch: m.GetEpoch()}
		s.t.auctions[id] = a
		time.AfterFunc(bidTime, func() { s.t.decide(id, a) })
	}
	a.bids = append(a.bids, b)
	return nil
}

// The method `connected` counts the clusters that have an open session.
func (t *term) connected(names []string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		if s := t.sessions[name]; s != nil && s.open {
			n++
		}
	}
	return n
}

// The method `decide` ends an auction. It tries the bids from the best to the worst, because a session may have ended.
func (t *term) decide(id ares.JobID, a *auction) {
	t.mu.Lock()
	if t.auctions[id] == a {
		delete(t.auctions, id)
	}
	bids := a.bids
	a.bids = nil
	t.mu.Unlock()
	for len(bids) > 0 {
		best := 0
		for i := range bids {
			if bids[i].isBetterThan(&bids[best]) {
				best = i
			}
		}
		b := bids[best]
		bids = append(bids[:best], bids[best+1:]...)
		b.s.handling.Lock()
		err := error(nil)
		if !b.s.closed {
			err = b.settle()
		}
		b.s.handling.Unlock()
		if err != nil {
			b.s.end(err)
		}
	}
}

// The method `settle` binds the job to the cluster of a bid if nobody has it yet (F1), and answers the claim. The caller
// holds the session's lock `handling`. An error of the store ends the session: the next hello tells what became of it.
func (b *bid) settle() error {
	s, m := b.s, b.claim
	if s.ctx.Err() != nil {
		return nil
	}
	id := ares.JobID(m.GetJobId())
	answer := &apipb.ClaimAnswer{JobId: m.GetJobId(), Epoch: m.GetEpoch()}
	if g := s.t.grant(id); hasLost(g, m.GetEpoch(), s.hello.Cluster) {
		answer.Reason = "another cluster owns the job, or its offer has ended"
		s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Claim{Claim: answer}})
		return nil
	}
	// gofail: var hubBeforeBind struct{}
	g, err := s.t.Store.Bind(s.ctx, store.Claim{Job: id, Epoch: m.GetEpoch(), Cluster: s.hello.Cluster, Incarnation: m.GetIncarnation(), At: s.t.Now()})
	// gofail: var hubAfterBind struct{}
	switch {
	case isRefusal(err):
		answer.Reason = err.Error()
	case err != nil:
		return err
	default:
		if answer.Bound, err = s.t.bound(grant.Ref{Job: id, Epoch: g.Epoch}, g.Incarnation); err != nil {
			return err
		}
		s.t.mu.Lock()
		delete(s.offered, id) // it is no offer any more, so no withdrawal follows
		s.t.mu.Unlock()
	}
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Claim{Claim: answer}})
	return nil
}

// hasLost reports whether a claim has lost according to the view. The view may be late, but a grant never becomes an open
// offer of an earlier epoch again. So the store need not be asked: most of the claims that lose end here.
func hasLost(g *ares.Grant, epoch int64, cluster string) bool {
	return g != nil && (g.Epoch > epoch || g.Epoch == epoch && g.State == ares.GrantBound && g.Cluster != cluster)
}

// isRefusal reports whether the hub's store refused a write because the grant is over. Repeating it would not help. Other
// errors end the session.
func isRefusal(err error) bool {
	code := ares.CodeOf(err)
	return err != nil && (code == ares.Fenced || code == ares.NotFound)
}

// The method `report` writes what a member reports of a job (F4). A report that does not match the grant is acknowledged
// too, because the hub will never need it.
func (s *session) report(m *apipb.GrantReport) error {
	id, outcome := ares.JobID(m.GetJobId()), stateOf(m.GetOutcome())
	r := store.Report{
		Job: id, Epoch: m.GetEpoch(), Cluster: s.hello.Cluster, Incarnation: m.GetIncarnation(), Outcome: store.GrantOutcome(outcome), Why: m.GetReason(), At: s.t.Now(),
	}
	if len(m.GetRun()) > 0 {
		run, err := decodeRun(m.GetRun(), id)
		if err != nil {
			return err
		}
		r.Run = run
	}
	// gofail: var hubBeforeReport struct{}
	err := s.t.Store.Report(s.ctx, r)
	// gofail: var hubAfterReport struct{}
	if err != nil && !isRefusal(err) {
		return err
	}
	if err != nil {
		s.t.Log.Warn("a report does not match the job's grant", "cluster", s.hello.Cluster, "job", id, "epoch", m.GetEpoch(), "error", err)
	}
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Acknowledgement{Acknowledgement: &apipb.ReportAcknowledgement{
		JobId: m.GetJobId(), Epoch: m.GetEpoch(), Outcome: m.GetOutcome(),
	}}})
	return nil
}

// The method `mirror` writes the run of a job that a member owns.
func (s *session) mirror(m *apipb.RunMirror) error {
	id := ares.JobID(m.GetJobId())
	run, err := decodeRun(m.GetRun(), id)
	if err != nil {
		return err
	}
	if s.isCopied(m, run) {
		return nil
	}
	err = s.t.Store.Mirror(s.ctx, []store.Report{{
		Job: id, Epoch: m.GetEpoch(), Cluster: s.hello.Cluster, Incarnation: m.GetIncarnation(), Run: run, At: s.t.Now(),
	}})
	return err
}

// isCopied reports whether the hub has a copy of a run, according to the view. A member sends every run again when it opens a
// session. Without the store, the hub is done with ten thousand of them before the next heartbeat is due.
func (s *session) isCopied(m *apipb.RunMirror, run *ares.Run) bool {
	id := ares.JobID(m.GetJobId())
	e, g := s.t.view.Job(id), s.t.grant(id)
	return e != nil && g != nil && g.IsHeldBy(s.hello.Cluster, m.GetIncarnation(), m.GetEpoch()) && run.Revision <= e.Run.AsOf
}
