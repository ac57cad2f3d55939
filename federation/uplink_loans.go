package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `lent` stores a loan (F10). A loan that was told to another incarnation of this cluster, or by another one of the
// hub, is ignored. If the hub asks for a lower limit, this cluster answers how much it may still use, and starts no more than
// that from then on.
func (l *link) lent(m *apipb.LoanNotice) error {
	if m.GetHub() != l.me.Hub || m.GetIncarnation() != l.me.Incarnation || m.GetGpus() < 0 || m.GetGpuHours() < 0 {
		return nil
	}
	loan := ares.Loan{Hub: m.GetHub(), Version: m.GetVersion(), GPUs: int(m.GetGpus()), Quota: int(m.GetQuota())}
	if m.GetGpuHours() > 0 {
		loan.Budget = ares.LoanBudget{Hours: int(m.GetGpuHours()), Secs: m.GetGpuSeconds(), Uncounted: m.GetUncountedGpuSeconds(), Month: m.GetMonth()}
	}
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

// loanAnswer says how much of a loan this cluster may still use: its limit, or what is in use if that is more. Of GPU-hours, it
// says what was used, because the limit is already kept. The loan is in the store since the given revision.
func (l *link) loanAnswer(tenant string, loan ares.Loan, revision int64) (*apipb.LoanAnswer, error) {
	use, err := l.u.UseFrom(l.ctx, tenant, revision)
	if err != nil {
		return nil, err
	}
	answer := &apipb.LoanAnswer{
		TenantId: tenant, Version: loan.Version, Gpus: int32(max(loan.GPUs, wholeGPUs(use))), Incarnation: l.me.Incarnation, Hub: l.me.Hub,
	}
	if b := &loan.Budget; b.Hours > 0 {
		month, used := l.u.UsedThisMonth(tenant)
		answer.Hours = &apipb.LoanHours{Month: month, UsedGpuSeconds: used, GpuSeconds: b.Secs}
		if b.Month == month {
			answer.Hours.UncountedGpuSeconds = b.Uncounted
		}
	}
	return answer, nil
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
