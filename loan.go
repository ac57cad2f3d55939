package ares

// Loan is the part of a tenant's GPU limit that the hub lets one cluster use (F10). It is kept in the cluster's record of the
// tenant. The tenant's own limits in the cluster apply too.
type Loan struct {
	Hub     string // the incarnation of the hub that has lent it
	Version int64  // the revision of the hub's record; a later loan has a higher one
	GPUs    int    // Unlimited if the tenant has no limit at the hub
	Quota   int    // the tenant's limit at the hub, for all clusters together
}

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
