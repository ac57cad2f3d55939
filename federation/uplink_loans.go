package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `shared` stores what the hub decides about a tenant.
func (l *link) shared(m *apipb.SharedTenant) error {
	t := ares.Tenant{
		ID: m.GetTenantId(), Name: m.GetName(), PriorityTier: ares.Class(m.GetPriorityTier()), MayPreempt: m.GetMayPreempt(),
		Weight: m.GetWeight(), WeightMin: m.GetWeightMin(), WeightMax: m.GetWeightMax(), Shared: &ares.Shared{Hub: m.GetHub(), Version: m.GetVersion()},
	}
	var p ares.Problems
	t.CheckWeight(&p)
	if err := p.Err(); err != nil || m.GetHub() != l.me.Hub || !ares.ValidName(t.ID) || t.PriorityTier != "" && t.PriorityTier.Rank() < 0 {
		l.u.Log.Warn("a tenant of the hub was not stored: upgrade this cluster if the hub is newer", "tenant", ares.Clip(t.ID), "error", err)
		return nil
	}
	err := l.u.Store.ShareTenant(l.ctx, l.u.lead, t, l.u.Now())
	if ares.CodeOf(err) == ares.Fenced {
		return nil // a later version is stored, or this server does not lead any more
	}
	return err
}

// The method `lent` stores a loan (F10). A loan that was told to another incarnation of this cluster, or by another one of the
// hub, is ignored. If the hub asks for a lower limit, this cluster answers how much it may still use, and starts no more than
// that from then on.
func (l *link) lent(m *apipb.LoanNotice) error {
	if m.GetHub() != l.me.Hub || m.GetIncarnation() != l.me.Incarnation || m.GetGpus() < 0 {
		return nil
	}
	loan := ares.Loan{Hub: m.GetHub(), Version: m.GetVersion(), GPUs: int(m.GetGpus()), Quota: int(m.GetQuota())}
	// gofail: var uplinkBeforeLoan struct{}
	revision, err := l.u.Store.SetLoan(l.ctx, l.u.lead, m.GetTenantId(), loan)
	// gofail: var uplinkAfterLoan struct{}
	switch code := ares.CodeOf(err); {
	case code == ares.Fenced, code == ares.NotFound:
		l.u.Log.Info("a loan was not stored", "tenant", ares.Clip(m.GetTenantId()), "version", loan.Version, "error", err)
		return nil
	case err != nil:
		return err
	case !m.GetLower():
		return nil
	}
	answer, err := l.loanAnswer(m.GetTenantId(), loan, revision)
	if err == nil {
		l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Loan{Loan: answer}})
	}
	return err
}

// loanAnswer says how much of a loan this cluster may still use: its limit, or what is in use if that is more. The loan is in the
// store since the given revision.
func (l *link) loanAnswer(tenant string, loan ares.Loan, revision int64) (*apipb.LoanAnswer, error) {
	use, err := l.u.UseFrom(l.ctx, tenant, revision)
	if err != nil {
		return nil, err
	}
	return &apipb.LoanAnswer{
		TenantId: tenant, Version: loan.Version, Gpus: int32(max(loan.GPUs, wholeGPUs(use))), Incarnation: l.me.Incarnation, Hub: l.me.Hub,
	}, nil
}

// wholeGPUs returns the devices in use as limits count them.
func wholeGPUs(use ares.Use) int { return use.GPUs + (use.GPUMilli+999)/1000 }

// The method `loans` returns what this cluster may use of each tenant, for a hub that was restored and asks (F6).
func (l *link) loans() (out []*apipb.LoanAnswer, err error) {
	for _, t := range l.u.view.Tenants() {
		if t.Loan == nil {
			continue
		}
		a, err := l.loanAnswer(t.ID, *t.Loan, t.Revision)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// The method `accepted` notes a new job that the view may not show yet.
func (l *link) accepted(j *ares.Job) {
	if l.arriving == nil {
		l.arriving = map[ares.JobID]*ares.Job{}
	}
	l.arriving[j.ID] = j
}

// loanRooms is what the loans of this cluster's tenants leave for further claims, in thousandths of devices. What runs or
// was claimed before comes first. A plan of one job does not know of the other claims, so it alone would let a cluster claim
// several jobs for the same loan. They would wait here while another cluster has a loan for them.
type loanRooms struct {
	l     *link
	rooms map[string]int64 // by tenant; only those that were asked for
}

func (l *link) loanRooms() *loanRooms {
	for id := range l.arriving { // order-free: a set
		if l.u.view.Job(id) != nil {
			delete(l.arriving, id)
		}
	}
	return &loanRooms{l, map[string]int64{}}
}

func milliOf(j *ares.Job) int64 {
	asks := j.Asks()
	return int64(1000*asks.GPUs + asks.GPUMilli)
}

// hasRoom reports whether the loan of the job's tenant is enough for the job.
func (r *loanRooms) hasRoom(j *ares.Job) bool {
	t := r.l.u.view.Tenant(j.Tenant)
	if t == nil || t.Loan == nil || t.Loan.GPUs >= ares.Unlimited || milliOf(j) == 0 {
		return true
	}
	room, known := r.rooms[j.Tenant]
	if !known {
		room = 1000*int64(t.WithinLoan().Limits.GPUs) - r.taken(j.Tenant)
		r.rooms[j.Tenant] = room
	}
	return milliOf(j) <= room
}

// The method `taken` adds up what the tenant's jobs use, what its claimed jobs wait for, and what is being claimed. The waiting
// jobs are read first: a job that starts meanwhile counts twice, and not never. Jobs that were submitted here compete with a
// claimed job for the loan as for any limit, so the plan of a job knows them.
func (r *loanRooms) taken(tenant string) (sum int64) {
	r.l.u.view.Search(func(j *ares.Job) bool { return j.Tenant == tenant && j.Origin != nil }, func(e *entry) bool {
		if e.Run.Phase.Waiting() && !e.Job.IsArray() && !e.Run.IsHeld(e.Job) {
			sum += milliOf(e.Job)
		}
		return true
	})
	use, _ := r.l.u.view.Use(tenant)
	sum += int64(1000*use.GPUs + use.GPUMilli)
	for _, o := range r.l.offers { // order-free: sums
		if o.claimed && o.job.Tenant == tenant {
			sum += milliOf(o.job)
		}
	}
	for _, j := range r.l.arriving { // order-free: sums
		if j.Tenant == tenant {
			sum += milliOf(j)
		}
	}
	return sum
}

// The method `take` counts a claim that was just sent.
func (r *loanRooms) take(j *ares.Job) {
	if room, known := r.rooms[j.Tenant]; known {
		r.rooms[j.Tenant] = room - milliOf(j)
	}
}
