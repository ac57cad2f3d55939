package federation

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// A bid is one claim, with the session to which the answer goes.
type bid struct {
	s     *session
	claim *apipb.GrantClaim
}

// A bidding collects the claims of one offer. The auction ranks them.
type bidding struct {
	epoch   int64
	auction *choose.Auction
	claims  map[string]bid // by cluster
}

// A quotedOffer is an open offer with the costs from which the Chooser made it.
type quotedOffer struct {
	epoch int64
	offer choose.Offer
}

// The method `offerOf` returns the offer that a grant stands for. An offer of an earlier leader has no costs: the clusters of
// the grant are in the order of their costs, so the earliest start wins then. The caller holds the term's lock.
func (t *term) offerOf(g *ares.Grant) choose.Offer {
	if q, ok := t.quoted[g.Job]; ok && q.epoch == g.Epoch {
		return q.offer
	}
	return choose.OfferOf(g.Job, g.Clusters)
}

// The method `claim` handles a claim. The claim of the first cluster of the offer wins at once if the job would start
// now. Other claims wait a moment for better ones, unless no other cluster is there that could claim the job.
func (s *session) claim(m *apipb.GrantClaim) error {
	id, b := ares.JobID(m.GetJobId()), bid{s: s, claim: m}
	g := s.t.grant(id)
	if g == nil || g.Epoch != m.GetEpoch() || g.State != ares.GrantOffered || s.t.connected(g.Clusters) < 2 {
		return b.settle() // the store decides
	}
	now := s.t.Now()
	s.t.mu.Lock()
	a := s.t.biddings[id]
	begins := a == nil || a.epoch != m.GetEpoch()
	if begins {
		a = &bidding{epoch: m.GetEpoch(), auction: choose.NewAuction(s.t.offerOf(g)), claims: map[string]bid{}}
		s.t.biddings[id] = a
	}
	a.claims[s.hello.Cluster] = b
	a.auction.Add(choose.Bid{
		Cluster: s.hello.Cluster, StartsAt: now.Add(time.Duration(m.GetBid().GetStartDelayMs()) * time.Millisecond), Score: int(m.GetBid().GetScore()),
	}, now)
	winner, over := a.auction.Winner(now)
	wins := over && winner.Cluster == s.hello.Cluster
	if wins {
		delete(a.claims, winner.Cluster)
	}
	if wins && begins { // nobody else waits for the end of this auction
		delete(s.t.biddings, id)
	}
	s.t.mu.Unlock()
	switch {
	case wins:
		return b.settle()
	case begins:
		time.AfterFunc(choose.BidWindow, func() { s.t.decide(id, a) })
	}
	return nil // the timer answers, also if another session has just won: that one may be handling a message
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

// The method `decide` ends an auction. It tries the bids from the best to the worst, because a session may have ended. The claims
// that lose are answered too.
func (t *term) decide(id ares.JobID, a *bidding) {
	now := t.Now()
	t.mu.Lock()
	if t.biddings[id] == a {
		delete(t.biddings, id)
	}
	var claims []bid
	for _, ranked := range a.auction.Ranked(now) {
		if b, ok := a.claims[ranked.Cluster]; ok {
			claims = append(claims, b)
		}
	}
	clear(a.claims)
	t.mu.Unlock()
	for _, b := range claims {
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
	g, err := s.t.bind(store.Claim{Job: id, Epoch: m.GetEpoch(), Cluster: s.hello.Cluster, Incarnation: m.GetIncarnation(), At: s.t.Now()})
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
		Moves: s.t.getsOffers(s.hello.Cluster), // a cluster that is drained gets no offers anyway
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

// The method `mirror` writes the runs of jobs that a member owns, in one transaction for many of them. If there are several runs of one
// job, the last one counts.
func (s *session) mirror(list []*apipb.MemberMessage) error {
	if !s.isOpen() {
		return errNotOpen()
	}
	var reports []store.Report
	at := map[ares.JobID]int{}
	for _, message := range list {
		m := message.GetMirror()
		id := ares.JobID(m.GetJobId())
		run, err := decodeRun(m.GetRun(), id)
		if err != nil {
			return err
		}
		if s.isCopied(m, run) {
			continue
		}
		i, ok := at[id]
		if !ok {
			i = len(reports)
			at[id] = i
			reports = append(reports, store.Report{})
		}
		reports[i] = store.Report{
			Job: id, Epoch: m.GetEpoch(), Cluster: s.hello.Cluster, Incarnation: m.GetIncarnation(), Run: run, At: s.t.Now(),
		}
	}
	return s.t.Store.Mirror(s.ctx, reports)
}

// isCopied reports whether the hub has a copy of a run, according to the view. A member sends every run again when it opens a
// session. Without the store, the hub is done with ten thousand of them before the next heartbeat is due.
func (s *session) isCopied(m *apipb.RunMirror, run *ares.Run) bool {
	id := ares.JobID(m.GetJobId())
	e, g := s.t.view.Job(id), s.t.grant(id)
	return e != nil && g != nil && g.IsHeldBy(s.hello.Cluster, m.GetIncarnation(), m.GetEpoch()) && run.Revision <= e.Run.AsOf
}
