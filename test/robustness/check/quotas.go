package check

import (
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// O6: no tenant holds more GPUs than its limit, at any recorded revision, and
// none holds less than nothing. A seat counts against its tenant from its
// placement until it is settled: released, or taken back because its node was
// lost (then it is its node's affair). Parts of devices are added up and
// rounded up once, over all the tenant holds.
type quotas struct {
	*book
	use     map[string]use
	touched map[string]bool
	over    map[string]bool
}

// use is what a tenant holds.
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
