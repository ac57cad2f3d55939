package ares

// Loan is the part of a tenant's GPU limit, and of its budget of GPU-hours, that the hub lets one cluster use (F10). It is kept
// in the cluster's record of the tenant. The tenant's own limits in the cluster apply too.
type Loan struct {
	Hub     string // the incarnation of the hub that has lent it
	Version int64  // the revision of the hub's record; a later loan has a higher one
	GPUs    int    // Unlimited if the tenant has no limit at the hub
	Quota   int    // the tenant's limit at the hub, for all clusters together
	Budget  LoanBudget
}

// LoanBudget is the part of a tenant's budget of GPU-hours that one cluster may use in a calendar month (UTC). It stays the same
// from month to month until the hub changes it.
type LoanBudget struct {
	Hours int   // the whole budget at the hub for a month, 0 for none
	Secs  int64 // what the tenant may use of it in this cluster, in GPU-seconds
	// Uncounted is what the tenant has used here in one month and what the records of this cluster do not show, because they
	// were restored from a backup.
	Uncounted int64
	Month     string // of Uncounted, as in 2026-11
}

// MonthForm is the time format of a budget's month. Months are in UTC.
const MonthForm = "2006-01"

// Shared says that the hub of this cluster decides about a tenant.
type Shared struct {
	Hub     string // the incarnation of the hub
	Version int64  // the revision of the hub's record that this cluster has
}

// WithinLoan returns the tenant as the scheduler must treat it: its GPU limit is at most its loan. It returns t itself if the
// loan changes nothing.
func (t *Tenant) WithinLoan() *Tenant {
	if t.Loan == nil || t.Loan.GPUs >= t.Limits.GPUs {
		return t
	}
	out := *t
	out.Limits.GPUs = t.Loan.GPUs
	return &out
}

// LentSeconds returns how many GPU-seconds the records of this cluster may show for a month before no more jobs with GPUs start.
// The second result is false if the hub sets no such limit.
func (t *Tenant) LentSeconds(month string) (secs int64, limited bool) {
	if t.Loan == nil || t.Loan.Budget.Hours == 0 {
		return 0, false
	}
	b := &t.Loan.Budget
	if b.Month == month {
		return b.Secs - b.Uncounted, true
	}
	return b.Secs, true
}

// WithinQuota returns the tenant as admission must treat it: a job within the whole quota is accepted and waits, because the hub
// can raise the loan. It returns t itself if the quota changes nothing.
func (t *Tenant) WithinQuota() *Tenant {
	if t.Loan == nil || t.Loan.Quota >= t.Limits.GPUs {
		return t
	}
	out := *t
	out.Limits.GPUs = t.Loan.Quota
	return &out
}

// Share copies the fields about which the hub decides from its record of the tenant.
func (t *Tenant) Share(of *Tenant) {
	t.Name, t.PriorityTier, t.Weight, t.WeightMin, t.WeightMax, t.MayPreempt = of.Name, of.PriorityTier, of.Weight, of.WeightMin, of.WeightMax, of.MayPreempt
}

// CheckShared rejects a change of a field about which the hub decides.
func (t *Tenant) CheckShared(was *Tenant) error {
	if was.Shared == nil {
		return nil
	}
	for _, f := range []struct {
		name string
		same bool
	}{
		{"name", t.Name == was.Name},
		{"priority_tier", t.PriorityTier == was.PriorityTier},
		{"fair_share_weight", t.Weight == was.Weight},
		{"fair_share_weight_min", t.WeightMin == was.WeightMin},
		{"fair_share_weight_max", t.WeightMax == was.WeightMax},
		{"allow_preemption", t.MayPreempt == was.MayPreempt},
	} {
		if !f.same {
			return Errorf(Conflict, "%s: the hub decides about it, because tenant %s is a tenant of the hub: change it there with `ares tenant update %s --server` and the address of the hub", f.name, t.ID, t.ID).At(f.name)
		}
	}
	return nil
}
