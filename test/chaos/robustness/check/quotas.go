package check

import (
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O6 checks the GPU usage of each tenant at every recorded revision. The
// usage must never exceed the tenant's limit and never be negative. A seat
// counts against its tenant from its placement until it is released. If the
// node is lost, the seat counts only until it is voided. A voided seat still
// occupies its node's devices, but no longer counts against its tenant. Parts
// of devices are summed over all seats of the tenant, and the sum is rounded up
// once.
type quotas struct {
	*book
	use     map[string]use
	touched map[string]bool
	over    map[string]bool
}

// This type is the GPU usage of a tenant.
type use struct{ devices, milli int }

func (u use) gpus() int { return u.devices + (u.milli+whole-1)/whole }

func (f *quotas) step(c *change) {
	f.charge(c.was, -1)
	f.charge(c.now, +1)
}

func (f *quotas) charge(s *state, sign int) {
	if s == nil || s.job == nil {
		return
	}
	for _, a := range s.attempts() {
		for i := range a.Seats {
			if a.Seats[i].State.Settled() {
				continue
			}
			u := f.use[s.job.Tenant]
			for _, sh := range a.Seats[i].Shares {
				if sh.Milli >= whole {
					u.devices += sign
				} else {
					u.milli += sign * sh.Milli
				}
			}
			f.use[s.job.Tenant] = u
			f.touched[s.job.Tenant] = true
		}
	}
}

func (f *quotas) settle(e *trace.Entry, _ int64) {
	for tenant := range f.touched {
		u := f.use[tenant]
		limit, limited := f.run.Meta.Quotas[tenant]
		bad := u.devices < 0 || u.milli < 0 || limited && u.gpus() > limit
		if bad && !f.over[tenant] {
			f.wrong(WithinQuota, "", e.At, "tenant %s holds %d GPUs and %d/1000 at revision %d, and may hold %d", tenant, u.devices, u.milli, e.Batch.Revision, limit)
		}
		f.over[tenant] = bad
	}
	clear(f.touched)
}
