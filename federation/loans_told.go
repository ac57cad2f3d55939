package federation

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/loan"
)

// toldLoan is what a member was told of a loan in this session.
type toldLoan struct {
	version int64
	quota   int
	budget  int
	at      time.Time // the last time
	first   time.Time // the first time, for this version
}

// tellLoans tells the connected members their loans, after they were written. A member that has not answered a lower limit, or
// that uses less than it has answered, is asked again.
func (t *term) tellLoans(in *tenantLoans, clusters []loan.Cluster) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range clusters {
		c := &clusters[i]
		s := t.sessions[c.Name]
		r, lent := t.lending.records[in.id][c.Name]
		if !lent || s == nil || !s.open || !s.info.GetKeepsLoans() {
			continue
		}
		notice := &apipb.LoanNotice{
			TenantId: in.id, Version: r.Revision, Gpus: int32(r.Limit), Incarnation: s.hello.Incarnation, Hub: t.me, Lower: r.Limit < r.GPUs || r.Fresh, Quota: int32(in.quota()),
		}
		if r.Fresh && in.quota() >= ares.Unlimited {
			notice.Gpus = ares.Unlimited // only its hours are asked for
		}
		again := notice.GetLower() && (r.Fresh || c.Used < r.GPUs)
		if in.tellHours(s, &r, notice) {
			notice.Lower, again = true, true
		}
		was := s.lent[in.id]
		again = again && time.Since(was.at) >= t.Heartbeat
		if was.version == r.Revision && was.quota == in.quota() && was.budget == int(notice.GetGpuHours()) && !again {
			continue
		}
		if s.lent == nil {
			s.lent = map[string]toldLoan{}
		}
		now := time.Now()
		next := toldLoan{version: r.Revision, quota: in.quota(), budget: int(notice.GetGpuHours()), at: now, first: now}
		if was.version == r.Revision {
			next.first = was.first
		}
		s.lent[in.id] = next
		s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Loan{Loan: notice}})
	}
}

// mayTellOffer reports whether a member may be told of an offer. The member learns of the tenant first. A member that keeps loans
// also learns its loan of a tenant with a limit or a budget: until then it would start the job within its own limits only. The caller holds
// the term's lock, so it has asked the view for the tenant before: the view is locked while it waits for the hub's other locks.
func (t *term) mayTellOffer(s *session, of *ares.Tenant) bool {
	t.shareWith(s, of)
	if of == nil || !s.info.GetKeepsLoans() {
		return true
	}
	hours := of.GPUHours > 0 && s.info.GetKeepsHours()
	if of.Limits.GPUs >= ares.Unlimited && !hours {
		return true
	}
	r, lent := t.lending.records[of.ID][s.hello.Cluster]
	return lent && !r.Fresh && s.lent[of.ID].version > 0 && (!hours || r.Hours.Kept)
}

// holdOffer notes a job whose offer a member was not told, so that the next round looks at it again. The caller holds the term's
// lock.
func (t *term) holdOffer(id ares.JobID) {
	t.lendDue = true
	t.lending.held = append(t.lending.held, id)
}

// takeHeld returns the jobs that holdOffer noted.
func (l *lending) takeHeld() []ares.JobID {
	out := l.held
	l.held = nil
	return out
}
