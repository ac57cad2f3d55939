package federation

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/boottime"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
)

// A link is one session with the hub, as the member sees it. Except for the first fields, only the goroutine of `work` uses it.
type link struct {
	u    *Uplink
	ctx  context.Context
	out  *messageQueue[*apipb.MemberMessage]
	in   *messageQueue[*apipb.HubMessage] // received, and not handled yet
	beat *beat

	me     grant.Member // both incarnations
	member store.Membership

	began    boottime.Time // before the stream was opened: the hub counts its silence from a later time
	open     bool
	offers   map[ares.JobID]*offer
	order    []ares.JobID             // offers in the order of their arrival; may name offers that are gone
	landing  map[ares.JobID]int       // devices of accepted jobs that the view does not show yet
	arriving map[ares.JobID]*ares.Job // the same jobs, for the loans of their tenants
	mirrored map[ares.JobID]int64     // revision of the run that was sent last
	reported map[ares.JobID]int64     // epoch of the report that was sent in this session
	acked    map[ares.JobID]int64     // epoch of the last acknowledged report

	late       map[ares.JobID]time.Time // since when a waiting job is not expected to start soon
	looked     time.Time                // when the waiting jobs were looked at last
	explained  int                      // waiting jobs whose start was predicted so far; each look begins where the last one ended
	returnable map[ares.JobID]time.Time // when the hub was last told that this cluster would give a job back

	summary    []byte    // that was sent last
	summarized time.Time // when it was sent

	described   string    // that was sent last
	describedOf int64     // the revision that was sent with it
	describedAt time.Time // when it was last made
}

// The method `connect` opens a session and keeps it until an error or a silence ends it.
func (u *Uplink) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := u.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	began := u.Boot()
	stream, err := apipb.NewFederationServiceClient(conn).Connect(ctx)
	if err != nil {
		return apipb.FromStatus(err)
	}
	l := &link{
		u: u, ctx: ctx, began: began, out: newMessageQueue[*apipb.MemberMessage](), in: newMessageQueue[*apipb.HubMessage](),
		offers: map[ares.JobID]*offer{}, landing: map[ares.JobID]int{}, mirrored: map[ares.JobID]int64{},
		reported: map[ares.JobID]int64{}, acked: map[ares.JobID]int64{}, late: map[ares.JobID]time.Time{}, returnable: map[ares.JobID]time.Time{},
	}
	l.beat = newBeat(u, l.out)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(l.beat.run(ctx)) })
	wg.Go(func() { cancel(l.out.deliver(ctx, stream.Send)) })
	wg.Go(func() { cancel(l.receive(stream)) })
	if err = l.work(); ctx.Err() != nil && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

// The method `receive` receives the hub's messages. It notes answers to heartbeats as they arrive, so that the work of this session does not
// make the hub look silent.
func (l *link) receive(stream apipb.FederationService_ConnectClient) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return apipb.FromStatus(err)
		}
		if b, ok := m.GetBody().(*apipb.HubMessage_Heartbeat); ok {
			l.beat.answered(b.Heartbeat.GetSequence())
			wake(l.u.news) // for resume
			continue
		}
		l.beat.heard()
		if err = l.in.add(l.ctx, m); err != nil {
			return err
		}
	}
}

// The method `work` handles messages and does what is due, until the session ends.
func (l *link) work() error {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	lastSummary := time.Time{}
	dirty := false
	for {
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-l.in.news:
			for _, m := range l.in.take() {
				if err := l.handle(m); err != nil {
					return err
				}
			}
			dirty = true
		case <-l.u.news:
			dirty = true
		case <-tick.C:
		}
		if !l.open {
			continue
		}
		if sent := l.beat.takeAnswer(); !sent.IsZero() {
			if err := l.resume(sent, l.u.Boot()); err != nil {
				return err
			}
		}
		if err := l.reports(); err != nil {
			return err
		}
		if l.u.Summary != nil && time.Since(lastSummary) >= l.u.SummaryEvery {
			lastSummary = time.Now()
			l.summarize()
		}
		if err := l.describe(); err != nil {
			return err
		}
		l.offerWaiting()
		if dirty {
			dirty = false
			if err := l.claims(); err != nil {
				return err
			}
		}
	}
}

func (l *link) put(m *apipb.MemberMessage) { l.out.put(m) }

// The method `summarize` sends the summary if it says something new, or if it was not sent for a while.
func (l *link) summarize() {
	made := l.u.Summary()
	if time.Since(l.summarized) < SummaryRefresh && summary.IsSame(made, l.summary) {
		return
	}
	l.summary, l.summarized = made, time.Now()
	l.u.mu.Lock()
	l.u.summary = made
	l.u.mu.Unlock()
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Summary{Summary: &apipb.MemberSummary{Summary: made}}})
}

func (l *link) handle(m *apipb.HubMessage) error {
	switch b := m.GetBody().(type) {
	case *apipb.HubMessage_Greeting:
		return l.greet(b.Greeting)
	case *apipb.HubMessage_Welcome:
		return l.welcome(b.Welcome)
	case *apipb.HubMessage_Offer:
		return l.offered(b.Offer)
	case *apipb.HubMessage_Withdrawal:
		if o := l.offers[ares.JobID(b.Withdrawal.GetJobId())]; o != nil && o.epoch == b.Withdrawal.GetEpoch() && !o.claimed {
			delete(l.offers, ares.JobID(b.Withdrawal.GetJobId()))
		}
	case *apipb.HubMessage_Claim:
		return l.answered(b.Claim)
	case *apipb.HubMessage_Acknowledgement:
		return l.acknowledged(b.Acknowledgement)
	case *apipb.HubMessage_Cancel:
		return l.cancel(b.Cancel)
	case *apipb.HubMessage_ReturnRequest:
		return l.giveBack(b.ReturnRequest)
	case *apipb.HubMessage_Roster:
		return l.keepRoster(b.Roster)
	case *apipb.HubMessage_Metadata:
		return l.keepMetadata(b.Metadata)
	case *apipb.HubMessage_Tenant:
		return l.shared(b.Tenant)
	case *apipb.HubMessage_Loan:
		return l.lent(b.Loan)
	}
	return nil // a message of a later version
}

// The method `greet` handles the hub's first message and says hello. The member writes the hub's incarnation before it
// answers, and refuses a hub whose revision is below one that it has seen (F6).
func (l *link) greet(m *apipb.HubGreeting) error {
	id, revision, err := l.u.Store.Identity(l.ctx)
	if err != nil {
		return err
	}
	hub := incarnation(store.Identity{Store: m.GetStoreId(), Restore: m.GetRestoreId()}, 0)
	l.member, err = l.u.Store.UpdateMembership(l.ctx, func(mb *store.Membership) error {
		switch {
		case mb.HubStore != "" && mb.HubStore != m.GetStoreId():
			return ares.Errorf(ares.Conflict, "the hub at %s has another store than the hub that this cluster has joined: leave it and join this one with `ares join --global`", mb.HubURL)
		case m.GetRevision() < mb.HubRevision:
			return ares.Errorf(ares.Conflict, "the hub at %s has an earlier state than this cluster has seen: it was rolled back without `ares restore`, or it is the hub before its restore", mb.HubURL)
		}
		if mb.HubIncarnation != hub || m.GetRevision() > mb.HubRevision+revisionStep {
			mb.HubRevision = m.GetRevision()
		}
		mb.HubStore, mb.HubIncarnation = m.GetStoreId(), hub
		return nil
	})
	if err != nil {
		return err
	}
	l.me = grant.Member{Incarnation: incarnation(id, int(l.member.Rejoins)), Hub: hub}
	if err = l.u.view.WaitFor(l.ctx, revision); err != nil {
		return err
	}
	return l.hello(id, revision, m.GetAsking())
}

// revisionStep is how much the hub's revision must grow before a member writes it again. A restore raises the revision by
// much more, so a member still tells the hub before its restore from the hub after it.
const revisionStep = 1_000_000

// hello parts have at most so many grants, so that a message stays far below the limit of gRPC.
const maxListed = 500

// The method `hello` lists everything that the store knows of grants: claims without an answer, jobs, and tombstones.
func (l *link) hello(id store.Identity, revision int64, all bool) error {
	list, err := l.list(all)
	if err != nil {
		return err
	}
	var roster *apipb.Roster
	var loans []*apipb.LoanAnswer
	var copies [][]*apipb.MetadataEntry
	if all {
		if copies, err = l.copies(); err != nil {
			return err
		}
		if roster, err = l.roster(); err != nil {
			return err
		}
		if loans, err = l.loans(); err != nil {
			return err
		}
	}
	for {
		n := min(len(list), maxListed)
		var part []*apipb.MetadataEntry
		if len(copies) > 0 {
			part, copies = copies[0], copies[1:]
		}
		more := n < len(list) || len(copies) > 0
		l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Hello{Hello: &apipb.MemberHello{
			Cluster: l.member.Name, Protocol: protocol, StoreId: id.Store, RestoreId: id.Restore, Revision: revision, Cookie: cmp.Or(l.member.PendingCookie, l.member.Cookie),
			Version: l.u.Version, Incarnation: l.me.Incarnation, Grants: list[:n], More: more, Roster: roster,
			KeepsLoans: true, KeepsHours: true, Loans: loans, Metadata: part,
		}}})
		roster, loans = nil, nil // the first part has them
		if list = list[n:]; !more {
			return nil
		}
	}
}

// The method `list` returns what the hello lists. The claims are read first: a claim becomes a job or a floor before it is
// deleted, so no grant is missed. A restored hub also needs the tombstones that it acknowledged before: then `all` is true.
func (l *link) list(all bool) (out []*apipb.ListedGrant, err error) {
	claims, err := l.u.Store.GrantClaims(l.ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		out = append(out, &apipb.ListedGrant{JobId: string(c.Job), Epoch: c.Epoch, State: wireStates[grant.Claimed]})
	}
	floors, err := l.u.Store.Floors(l.ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range l.granted() {
		g := &apipb.ListedGrant{JobId: string(e.Job.ID), Epoch: e.Job.Origin.Epoch, State: wireStates[grant.Held]}
		if e.Run.Phase == ares.Returned {
			g.State = wireStates[grant.Returned]
		} else if e.Run.Phase.Final() {
			g.State = wireStates[grant.Final]
			if g.Run, err = encodeRun(e.Job.ID, &e.Run); err != nil {
				return nil, err
			}
		}
		out = append(out, g)
	}
	for i := range floors {
		f := &floors[i]
		if f.Acknowledged {
			l.acked[f.Job] = f.Epoch
			if !all {
				continue
			}
		}
		g := &apipb.ListedGrant{JobId: string(f.Job), Epoch: f.Epoch, State: wireStates[grant.State(f.Outcome)]}
		if f.Outcome == store.GrantFinal {
			if g.Run, err = l.finalRun(f); err != nil {
				return nil, err
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// finalRun returns the run of a job that has ended and was archived. After the hub's acknowledgement only the phase is left.
func (l *link) finalRun(f *store.Floor) ([]byte, error) {
	if f.Run != nil {
		return encodeRun(f.Job, f.Run)
	}
	snap, err := l.u.Store.Job(l.ctx, f.Job)
	switch {
	case err != nil && ares.CodeOf(err) != ares.NotFound:
		return nil, err
	case err == nil && snap.Tombstone == nil:
		return encodeRun(f.Job, &snap.Run)
	}
	run := ares.Run{Phase: ares.Lost, FinishedAt: f.At, Reason: "it has ended, and its cluster has forgotten how"}
	if err == nil {
		run.Phase, run.FinishedAt, run.Reason = snap.Tombstone.Phase, snap.Tombstone.EndedAt, "it has ended, and was archived in its cluster"
	}
	run.Transitions = []ares.Transition{{At: run.FinishedAt, Phase: run.Phase, Message: run.Reason}}
	return encodeRun(f.Job, &run)
}

// The method `granted` returns the live jobs that this hub has granted. Elements of arrays are not among them.
func (l *link) granted() (out []*entry) {
	l.u.view.Search(func(j *ares.Job) bool {
		return j.Origin != nil && j.Origin.Hub == l.member.HubStore && j.ArrayOf == ""
	}, func(e *entry) bool {
		out = append(out, e)
		return true
	})
	slices.Reverse(out) // oldest first
	return out
}

// The method `welcome` handles the hub's answer to the hello. The member drops what is not bound to it any more, creates
// what is bound to it and missing, writes the cookie, and confirms it. Then the session is open.
func (l *link) welcome(m *apipb.HubWelcome) error {
	if m.GetIncarnation() != l.me.Incarnation {
		return ares.Errorf(ares.Fenced, "the hub welcomes another incarnation of this cluster")
	}
	if m.GetDead() {
		return l.rejoin()
	}
	dropped := map[ares.JobID]bool{}
	for _, ref := range m.GetDrop() {
		dropped[ares.JobID(ref.GetJobId())] = true
		if err := l.drop(ares.JobID(ref.GetJobId()), ref.GetEpoch(), "another cluster may have it"); err != nil {
			return err
		}
	}
	for _, e := range l.granted() {
		if !e.Run.Unconfirmed || dropped[e.Job.ID] {
			continue
		}
		// A fenced job is confirmed by the answer to a heartbeat. The welcome may be old, and no fence counts from it: the job would be
		// suspended again at once.
		if _, fenced := fencedAfter(e.Job); fenced {
			l.u.mu.Lock()
			l.u.suspended[e.Job.ID] = e.Job.Origin.Epoch
			l.u.mu.Unlock()
			continue
		}
		if err := l.u.Store.Confirm(l.ctx, e.Job.ID, e.Job.Origin.Epoch, l.u.Now()); err != nil {
			return err
		}
	}
	for _, b := range m.GetBound() {
		delete(l.acked, ares.JobID(b.GetJobId())) // if it has ended here, it is reported again
		if err := l.bound(b); err != nil {
			return err
		}
	}
	if err := l.forgetClaims(); err != nil {
		return err
	}
	if _, err := l.u.Store.UpdateMembership(l.ctx, func(mb *store.Membership) error {
		mb.Cookie, mb.PendingCookie = m.GetCookie(), ""
		return nil
	}); err != nil {
		return err
	}
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Confirmation{Confirmation: &apipb.SessionConfirmation{Cookie: m.GetCookie()}}})
	l.open = true
	l.beat.open()
	l.u.setCookie(m.GetCookie())
	granted := l.granted() // before the lock: the view holds its own lock while it calls Uplink.apply
	l.u.mu.Lock()
	l.u.why = ""
	for _, e := range granted {
		l.u.touched[e.Job.ID] = true // everything is reported again, and the hub ignores what it knows
	}
	l.u.mu.Unlock()
	l.u.Log.Info("the session with the hub is open", "cluster", l.member.Name, "dropped", len(m.GetDrop()), "created", len(m.GetBound()))
	l.beat.send()
	wake(l.u.news)
	return l.reportFloors()
}

// forgetClaims deletes the claims that the hub has not bound: their offers are over.
func (l *link) forgetClaims() error {
	claims, err := l.u.Store.GrantClaims(l.ctx)
	if err != nil {
		return err
	}
	for _, c := range claims {
		if err = l.u.Store.ForgetClaim(l.ctx, c.Job, c.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// The method `rejoin` handles the news that this cluster was declared dead: it stops everything that it was granted, and
// counts as a new incarnation from then on.
func (l *link) rejoin() error {
	for _, e := range l.granted() {
		if e.Run.Phase.Final() {
			continue
		}
		if err := l.drop(e.Job.ID, e.Job.Origin.Epoch, "this cluster was declared dead"); err != nil {
			return err
		}
	}
	if err := l.u.Store.ClearLoans(l.ctx, false); err != nil { // the hub has lent them to others
		return err
	}
	if _, err := l.u.Store.UpdateMembership(l.ctx, func(mb *store.Membership) error {
		mb.Rejoins = l.member.Rejoins + 1
		return nil
	}); err != nil {
		return err
	}
	return ares.Errorf(ares.Fenced, "this cluster was declared dead: it has stopped the jobs of the hub and joins anew")
}

func (l *link) drop(id ares.JobID, epoch int64, why string) error {
	l.u.Log.Warn("a granted job is dropped", "job", id, "epoch", epoch, "reason", why)
	_, err := l.u.Store.Drop(l.ctx, id, epoch, why, l.u.Now())
	return err
}
