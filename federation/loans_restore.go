package federation

import (
	"cmp"
	"context"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// adoptLoans writes what the clusters may use according to their answers, after a restore of the hub (F6). A cluster that names
// no loan of a tenant has none.
func (t *term) adoptLoans(ctx context.Context, asking *store.Asking) error {
	t.mu.Lock()
	var sessions []*session
	for _, s := range t.sessions { // order-free: sorted below
		if s.identified {
			sessions = append(sessions, s)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.hello.Cluster, b.hello.Cluster) })
	list, err := t.Store.Loans(ctx)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		named := map[string]bool{}
		for _, a := range s.info.GetLoans() {
			if !ares.ValidName(a.GetTenantId()) || a.GetGpus() < 0 {
				return ares.Errorf(ares.Invalid, "cluster %s names a loan of tenant %q", s.hello.Cluster, ares.Clip(a.GetTenantId()))
			}
			named[a.GetTenantId()] = true
			l := store.Loan{Tenant: a.GetTenantId(), Cluster: s.hello.Cluster, GPUs: int(a.GetGpus()), Limit: int(a.GetGpus()), Hours: hoursSaid(a.GetHours(), s.hello.Incarnation)}
			if err = t.Store.AdoptLoan(ctx, t.lead, asking, l); err != nil {
				return err
			}
		}
		for _, l := range list {
			if l.Cluster == s.hello.Cluster && !named[l.Tenant] {
				if _, err = t.Store.EndLoan(ctx, t.lead, asking, l.Tenant, l.Cluster, t.month()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
