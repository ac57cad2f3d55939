package federation

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

const (
	claimEvery   = 250 * time.Millisecond // the longest time between two looks at the offers
	maxClaims    = 64                     // claims without an answer
	maxRefused   = 8                      // offers in a row that would not start soon, after which the rest waits
	claimLaterBy = 2 * time.Second        // how old an offer must be before a job that would wait here is claimed
)

// An offer is a job that the hub offers to this cluster.
type offer struct {
	epoch   int64
	job     *ares.Job
	at      time.Time
	claimed bool // the claim was sent, and its answer has not arrived
	refused bool // this cluster does not accept the job
}

// The method `offered` notes an offer. A job that cannot be read, such as one of a later version, is for other clusters: the
// offer binds nobody, and the session goes on.
func (l *link) offered(m *apipb.GrantOffer) error {
	id := ares.JobID(m.GetJobId())
	job, err := l.grantedJob(m.GetJob(), id, m.GetEpoch())
	if err != nil {
		l.u.Log.Warn("an offer of the hub cannot be read: upgrade this cluster if the hub is newer", "job", ares.Clip(m.GetJobId()), "error", err)
		return nil
	}
	if l.offers[id] == nil {
		l.order = append(l.order, id)
	}
	l.offers[id] = &offer{epoch: m.GetEpoch(), job: job, at: time.Now()}
	return nil
}

// grantedJob decodes a job and adds the grant to it.
func (l *link) grantedJob(data []byte, id ares.JobID, epoch int64) (*ares.Job, error) {
	if !ares.ValidJobID(string(id)) || epoch <= 0 {
		return nil, ares.Errorf(ares.Invalid, "the hub names the job %q with epoch %d", ares.Clip(string(id)), epoch)
	}
	job, err := decodeJob(data, id)
	if err != nil {
		return nil, err
	}
	job.Origin = &ares.Origin{Hub: l.member.HubStore, Epoch: epoch}
	return job, nil
}

// The method `claims` claims offered jobs that would start now, and those that would start soon and that no other cluster
// has claimed.
func (l *link) claims() error {
	l.order = slices.DeleteFunc(l.order, func(id ares.JobID) bool { return l.offers[id] == nil })
	if len(l.order) == 0 {
		return nil // the cluster's own jobs change often, and the rest looks at all that wait
	}
	open, free := 0, l.freeGPUs()-l.waitingGPUs()
	for _, o := range l.offers { // order-free: sums
		if o.claimed {
			open, free = open+1, free-gpusOf(o.job)
		}
	}
	for id, gpus := range l.landing { // order-free: sums
		if l.u.view.Job(id) != nil {
			delete(l.landing, id)
		} else {
			free -= gpus
		}
	}
	refused, loans := 0, l.loanRooms()
	for _, id := range l.order {
		o := l.offers[id]
		switch {
		case open >= maxClaims || refused >= maxRefused:
			return nil
		case o.claimed || o.refused || !loans.hasRoom(o.job):
			continue
		case gpusOf(o.job) > max(free, 0) && time.Since(o.at) < claimLaterBy:
			continue
		}
		delay, ok := l.startsIn(o)
		if !ok {
			refused++
			continue
		}
		if err := l.claim(o, delay); err != nil {
			return err
		}
		open, free = open+1, free-gpusOf(o.job)
		loans.take(o.job)
	}
	return nil
}

// startsIn returns in how much time this cluster would start an offered job. It returns false if the job should not be
// claimed now. Admission is checked before the claim: after it, the job can only be returned (F1).
func (l *link) startsIn(o *offer) (time.Duration, bool) {
	if l.u.Admit != nil {
		if err := l.u.Admit(l.ctx, o.job); err != nil {
			if ares.CodeOf(err).Rejects() {
				o.refused = true
			}
			return 0, false
		}
	}
	now, job := l.u.Now(), o.job
	if e := l.u.view.Job(job.ID); e != nil {
		if e.Job.Origin == nil || e.Job.Origin.Hub != job.Origin.Hub {
			return 0, true // the claim makes the hub learn that the ID is taken
		}
		if !e.Run.Phase.Final() || !e.Run.Free() {
			return 0, false // the earlier grant of the job has to end first
		}
		job = new(*job)
		job.ID += "+" // the plan must not find the record of the earlier grant
	}
	_, why := l.u.Plan(job, nil)
	if why == nil {
		return 0, true
	}
	eta := why.ETA.Latest
	if eta.IsZero() || l.u.ClaimAhead == 0 || time.Since(o.at) < claimLaterBy || eta.Sub(now) > l.u.ClaimAhead {
		return 0, false
	}
	return max(eta.Sub(now), time.Millisecond), true
}

func gpusOf(j *ares.Job) int { return j.GPUs * max(j.Members, 1) }

// waitingGPUs counts the devices that the waiting jobs of this cluster request. They come before a new job, so that the
// cluster does not claim what another cluster could start earlier.
func (l *link) waitingGPUs() (sum int) {
	l.u.view.Search(func(j *ares.Job) bool { return j.GPUs > 0 }, func(e *entry) bool {
		if e.Run.Phase.Waiting() && !e.Job.IsArray() && !e.Run.IsHeld(e.Job) {
			sum += gpusOf(e.Job)
		}
		return true
	})
	return sum
}

// freeGPUs counts the free, healthy devices of the nodes that can start jobs.
func (l *link) freeGPUs() int {
	nodes, _ := l.u.view.Nodes()
	free, now := 0, l.u.Now()
	for _, n := range nodes {
		if n.State(now) != ares.Online {
			continue
		}
		for i := range n.Node.Devices {
			if n.Node.Devices[i].Healthy {
				free++
			}
		}
		entries, _, _ := l.u.view.SeatsOn(n.Node.ID)
		for _, e := range entries {
			for i := range e.Run.Attempts {
				for k := range e.Run.Attempts[i].Seats {
					if h := &e.Run.Attempts[i].Seats[k]; h.Node == n.Node.ID && !h.State.Free() {
						free -= len(h.Shares)
					}
				}
			}
		}
	}
	return free
}

// The method `claim` writes the claim in this cluster's store and then sends it (F13): a copy of the store that was made
// before has no record of the claim.
func (l *link) claim(o *offer, delay time.Duration) error {
	// gofail: var uplinkBeforeClaim struct{}
	if err := l.u.Store.RecordClaim(l.ctx, o.job.ID, o.epoch, l.u.Now()); err != nil {
		return err
	}
	// gofail: var uplinkAfterClaim struct{}
	o.claimed = true
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Claim{Claim: &apipb.GrantClaim{
		JobId: string(o.job.ID), Epoch: o.epoch, Incarnation: l.me.Incarnation, Bid: &apipb.GrantBid{StartDelayMs: delay.Milliseconds()},
	}}})
	return nil
}

// The method `answered` handles the answer to a claim.
func (l *link) answered(m *apipb.ClaimAnswer) error {
	id := ares.JobID(m.GetJobId())
	if o := l.offers[id]; o != nil && o.epoch == m.GetEpoch() {
		delete(l.offers, id)
	}
	if m.GetBound() != nil {
		return l.bound(m.GetBound())
	}
	return l.u.Store.ForgetClaim(l.ctx, id, m.GetEpoch())
}

// The method `bound` creates a job that is bound to this cluster (F7). Accept leaves a floor if the ID is taken, and
// ignores a grant that was given back or has ended.
func (l *link) bound(m *apipb.BoundGrant) error {
	id := ares.JobID(m.GetJobId())
	if !l.me.Accepts(grant.Bound{Epoch: m.GetEpoch(), Incarnation: m.GetIncarnation(), Hub: m.GetHub()}, 0) {
		return nil // an answer to an earlier incarnation of this cluster, or of the hub
	}
	if len(m.GetJob()) > 0 {
		job, err := l.grantedJob(m.GetJob(), id, m.GetEpoch())
		if err != nil {
			return err
		}
		// gofail: var uplinkBeforeAccept struct{}
		accepted, err := l.u.Store.Accept(l.ctx, job, l.u.Now())
		// gofail: var uplinkAfterAccept struct{}
		if err != nil {
			return err
		}
		if accepted == store.AcceptedNew {
			l.landing[id] = gpusOf(job)
			l.accepted(job)
		}
		if accepted == store.AcceptedTaken {
			l.u.Log.Warn("a granted job has the ID of another job", "job", id)
			return l.reportFloors()
		}
		l.u.mu.Lock()
		l.u.touched[id] = true
		l.u.mu.Unlock()
	}
	return l.u.Store.ForgetClaim(l.ctx, id, m.GetEpoch())
}

// The method `cancel` passes a cancellation of the hub's users on to the job (F8).
func (l *link) cancel(m *apipb.GrantCancel) error {
	id := ares.JobID(m.GetJobId())
	e := l.u.view.Job(id)
	if e == nil || e.Job.Origin == nil || e.Job.Origin.Epoch != m.GetEpoch() || e.Run.Phase.Final() {
		return nil // the hub learns of the end by the report
	}
	stop := ares.Stop{Why: ares.StopCancel, By: m.GetBy(), At: l.u.Now(), Grace: time.Duration(m.GetGraceMs()) * time.Millisecond}
	if _, err := l.u.Store.RequestStop(l.ctx, id, stop); err != nil && !isOutdated(err) {
		return err
	}
	return nil
}

// isOutdated reports whether a job's state does not allow what the hub asks for.
func isOutdated(err error) bool {
	code := ares.CodeOf(err)
	return err != nil && (code == ares.Conflict || code == ares.Fenced || code == ares.NotFound)
}
