package federation

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

const (
	returnOfferEvery = 15 * time.Second // how often an offer to give a job back is repeated while it holds
	maxExplained     = 8                // waiting jobs whose start is predicted at once: each prediction stops the scheduler for a moment
	// failuresToMove is after how many failed or lost attempts in a row a job had better run elsewhere. After one, it is tried
	// again where it was: its data and images are there, and most failures are not the cluster's.
	failuresToMove = 2
)

// giveBack returns a job that waits here, if nothing of it runs (F3). If the hub says so, a job that runs is stopped first; it is
// returned when the stop is over.
func (l *link) giveBack(m *apipb.ReturnRequest) error {
	id, now := ares.JobID(m.GetJobId()), l.u.Now()
	_, err := l.u.Store.Return(l.ctx, id, m.GetEpoch(), m.GetReason(), now)
	if isOutdated(err) && m.GetStop() {
		err = l.u.Store.StopToReturn(l.ctx, id, m.GetEpoch(), m.GetReason(), now)
	}
	if isOutdated(err) {
		l.u.Log.Info("a job is not returned", "job", m.GetJobId(), "reason", err)
		return nil
	}
	return err
}

// returnStopped returns a job that was stopped for that. The record of the run says so, so a server that gets the uplink
// meanwhile does it too.
func (l *link) returnStopped(e *entry) error {
	// gofail: var uplinkBeforeReturn struct{}
	_, err := l.u.Store.Return(l.ctx, e.Job.ID, e.Job.Origin.Epoch, e.Run.Returning, l.u.Now())
	if isOutdated(err) {
		return nil // it has changed, and its next change comes here
	}
	return err
}

// mayGiveBack reports whether a job waits here and could be returned now. A job that somebody holds here stays, and so does one
// for which running jobs are being preempted.
func mayGiveBack(e *entry) bool {
	return e.Run.CheckReturn(e.Job) == nil && e.Run.Nominated == nil && !e.Run.IsHeld(e.Job)
}

// offerFailing offers to give back a job whose last attempts failed here, while it waits for its next attempt.
func (l *link) offerFailing(e *entry) {
	if n := e.Run.FailedInARow(); n >= failuresToMove && mayGiveBack(e) {
		l.offerReturn(e, fmt.Sprintf("its last %d attempts there failed", n))
	}
}

// offerWaiting offers to give back the jobs that would not start here soon, because capacity that was there when they were
// claimed is gone, and repeats the offers of those that have failed.
func (l *link) offerWaiting() {
	every := min(returnOfferEvery, max(l.u.LateAfter, claimEvery))
	if time.Since(l.looked) < every {
		return
	}
	l.looked = time.Now()
	var waiting []*entry
	late := map[ares.JobID]time.Time{}
	for _, e := range l.granted() {
		l.offerFailing(e)
		if e.Run.Phase == ares.Pending && mayGiveBack(e) {
			waiting = append(waiting, e)
			if since, ok := l.late[e.Job.ID]; ok {
				late[e.Job.ID] = since
			}
		}
	}
	l.late = late
	if l.u.Explain == nil {
		return
	}
	for i := range min(len(waiting), maxExplained) {
		l.lookAt(waiting[(l.explained+i)%len(waiting)])
	}
	l.explained += maxExplained
}

// lookAt offers to give back a waiting job if it was not expected to start soon for a while.
func (l *link) lookAt(e *entry) {
	id, ahead := e.Job.ID, max(l.u.ClaimAhead, l.u.LateAfter)
	eta, why := l.u.Explain(id).ETA.Latest, ""
	switch {
	case eta.IsZero():
		why = "nobody can say when it would start there"
	case eta.Sub(l.u.Now()) > ahead:
		why = "it would not start there within " + ahead.String()
	default:
		delete(l.late, id)
		return
	}
	since, ok := l.late[id]
	if !ok {
		since = time.Now()
		l.late[id] = since
	}
	if time.Since(since) >= l.u.LateAfter {
		l.offerReturn(e, why)
	}
}

// offerReturn tells the hub that this cluster would give a job back, if it was not told so just now.
func (l *link) offerReturn(e *entry, why string) {
	if time.Since(l.returnable[e.Job.ID]) < returnOfferEvery/2 {
		return
	}
	l.returnable[e.Job.ID] = time.Now()
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_ReturnOffer{ReturnOffer: &apipb.ReturnOffer{
		JobId: string(e.Job.ID), Epoch: e.Job.Origin.Epoch, Incarnation: l.me.Incarnation, Reason: why,
	}}})
}
