package federation

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/loan"
	"github.com/ares-scheduler/ares/store"
)

// A tenant's budget of GPU-hours at the hub holds for all clusters together, and each cluster keeps to its part of it. Unlike
// devices, hours are consumed: only those that were not used can be lent to another cluster. A loan counts for each month, so a
// silent cluster keeps it in the next month too. The use of a cluster only grows within a month, also over a restore of the
// cluster. While the clocks of hub and cluster show different months, the loan does not change.
//
// Invariant: all loans together are at most the budget. No loan is raised to more than what the budget leaves after the loans of
// the other clusters, and after what they have used beyond these.

// clusterHours is what the leader knows of the GPU-hours of one tenant in one cluster.
type clusterHours struct {
	known     store.LoanHours // the record
	keeps     bool            // the cluster is connected, and its version keeps to loans of GPU-hours
	confirmed bool            // this incarnation of it has answered
	awaited   bool            // it has not, and the other clusters wait for its answer
	current   bool            // its last summary is of this month
	used      int64           // in this month
}

// month returns the month of the hub's clock.
func (t *term) month() string { return t.Now().UTC().Format(ares.MonthForm) }

// monthLeft returns the time until the next month.
func (t *term) monthLeft() time.Duration {
	now := t.Now().UTC()
	return time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(now)
}

// budget returns the tenant's GPU-hours in a month for all clusters together, 0 if it has no budget.
func (in *tenantLoans) budget() int {
	if in.tenant == nil {
		return 0
	}
	return in.tenant.GPUHours
}

// The method `read` adds what the last summary of a connected cluster says.
func (h *clusterHours) read(tenant string, s *session, month string) {
	h.confirmed = h.known.Kept && h.known.Incarnation == s.hello.Incarnation
	known := h.known.In(month)
	if h.used = known.Used; s.decoded == nil || known.Month != month {
		return
	}
	if h.current = s.decoded.At.UTC().Format(ares.MonthForm) == month; !h.current || !h.confirmed {
		return
	}
	for i := range s.decoded.Tenants {
		if u := &s.decoded.Tenants[i]; u.Tenant == tenant {
			h.used = max(h.used, u.UsedSecs+known.Uncounted)
		}
	}
}

// divideHours decides what each cluster should have of the tenant's budget.
func (t *term) divideHours(in *tenantLoans, clusters []loan.Cluster) {
	if in.budget() == 0 {
		return
	}
	month := t.month()
	left := 3600 * int64(in.budget())
	records := t.lending.records[in.id]
	for name := range records { // order-free: a sum
		if in.clusters[name] == nil { // it is no member any more
			left -= records[name].Hours.Taken(month)
		}
	}
	awaited := false
	var spenders []loan.Spender
	for i := range clusters {
		c := &clusters[i]
		h := &in.clusters[c.Name].hours
		awaited = awaited || h.awaited
		s := loan.Spender{Name: c.Name, Loan: int(h.known.Secs), Used: int(h.used), Running: c.Used, Devices: c.Capacity, Closed: c.Closed}
		if !h.keeps || !h.confirmed || !h.current {
			s.Loan, s.Fixed = int(records[c.Name].Hours.Taken(month)), true
		}
		spenders = append(spenders, s)
	}
	in.seconds = map[string]int64{}
	for i, target := range loan.DivideHours(int(left), spenders, in.wants, t.monthLeft(), t.Now()) {
		if s := &spenders[i]; !s.Fixed && (!awaited || int64(target) <= in.clusters[s.Name].hours.known.Secs) {
			in.seconds[s.Name] = int64(target)
		}
	}
}

// writtenParts is the number of times that the growing use of a cluster is written until the budget is used up.
const writtenParts = 256

// changeHours sets the GPU-hours that a cluster should have. A raise that does not fit yet waits for the answers of others. The
// use is written with each change, and when it has grown by a part of the budget.
func (t *term) changeHours(in *tenantLoans, next *store.Loan, raise bool) {
	h := &next.Hours
	if in.budget() == 0 {
		*h = store.LoanHours{} // no cluster keeps to it any more
		return
	}
	target, decided := in.seconds[next.Cluster]
	if !decided {
		return
	}
	was, month := *h, t.month()
	known := was.In(month)
	used := max(in.clusters[next.Cluster].hours.used, known.Used)
	switch {
	case raise != (target > was.Secs):
	case target <= was.Secs:
		h.Limit = target // it is asked, if this is lower
	case t.takenByOthers(in, next.Cluster, month)+max(target, used) <= 3600*int64(in.budget()):
		h.Secs, h.Limit = target, target
	}
	if *h != was || used-known.Used >= max(3600*int64(in.budget())/writtenParts, 60) {
		known.Secs, known.Limit, known.Used = h.Secs, h.Limit, used
		*h = known
	}
}

func (t *term) takenByOthers(in *tenantLoans, cluster, month string) (sum int64) {
	for name, r := range t.lending.records[in.id] { // order-free: a sum
		if name != cluster {
			sum += r.Hours.Taken(month)
		}
	}
	return sum
}

// hasEnded reports whether a record is what is left of the loan of a cluster that is no member any more.
func (t *term) hasEnded(in *tenantLoans, r *store.Loan) bool {
	return r.Fresh && in.budget() > 0 && !r.Hours.Kept && r.Hours.Used > 0 && r.Hours.Month >= t.month()
}

// tellHours adds the GPU-hours of a tenant to what a member is told. It reports whether the hub waits for an answer. A member that
// has not answered yet since it was restored, or since the tenant has a budget, has a loan of 0: the hub must know first what it
// has used.
func (in *tenantLoans) tellHours(s *session, r *store.Loan, notice *apipb.LoanNotice) (ask bool) {
	if in.budget() == 0 || !s.info.GetKeepsHours() {
		return false
	}
	h := &r.Hours
	notice.GpuHours, notice.UncountedGpuSeconds, notice.Month = int32(in.budget()), h.Uncounted, h.Month
	if !h.Kept || h.Incarnation != s.hello.Incarnation {
		return true
	}
	notice.GpuSeconds = h.Limit
	return h.Limit < h.Secs
}

// hoursAnswer returns what a member says of GPU-hours. If its clock shows another month, it must be asked again.
func (t *term) hoursAnswer(m *apipb.LoanHours) *store.HoursAnswer {
	if m == nil || m.GetMonth() != t.month() || m.GetUsedGpuSeconds() < 0 {
		return nil
	}
	return &store.HoursAnswer{Month: m.GetMonth(), Used: m.GetUsedGpuSeconds()}
}

// hoursSaid returns what a member says of its GPU-hours to a hub that was restored.
func hoursSaid(m *apipb.LoanHours, incarnation string) store.LoanHours {
	if m == nil || m.GetUsedGpuSeconds() < 0 || m.GetUncountedGpuSeconds() < 0 {
		return store.LoanHours{}
	}
	return store.LoanHours{
		Kept: true, Secs: max(m.GetGpuSeconds(), 0), Month: m.GetMonth(), Used: m.GetUsedGpuSeconds(), Uncounted: m.GetUncountedGpuSeconds(), Incarnation: incarnation,
	}
}
