package store

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// LoanHours is the part of a tenant's budget of GPU-hours that one cluster may use in each calendar month (UTC), in the hub's
// record (F10). Amounts are GPU-seconds. A budget is consumed: what was used in this month never comes back, and what was lent
// and not used can.
type LoanHours struct {
	Kept  bool  // the cluster has said that it keeps to it
	Secs  int64 // the most that the cluster may use in a month
	Limit int64 // what it was told; lower than Secs until it has answered
	// Used is what the tenant has used in the cluster in the month Month, as far as it was written down. A cluster that was
	// restored from a backup shows less: Uncounted is the difference.
	Month           string
	Used, Uncounted int64
	Incarnation     string // of the cluster that has answered last, to which Uncounted applies
}

// In returns the record as it counts in a month: what was used in an earlier one is over.
func (h LoanHours) In(month string) LoanHours {
	if h.Month < month {
		h.Month, h.Used, h.Uncounted = month, 0, 0
	}
	return h
}

// Taken returns what a cluster takes of the budget of a month: what it may use, or has used if that is more. A cluster that does
// not keep to a budget takes what it has used.
func (h LoanHours) Taken(month string) int64 {
	used := h.In(month).Used
	if !h.Kept {
		return used
	}
	return max(h.Secs, used)
}

// report returns the record after an incarnation has said what its own records show. A new incarnation was restored from a
// backup or has joined anew. If it shows less than was known, the difference stays used.
func (h LoanHours) report(incarnation, month string, used int64) LoanHours {
	if h = h.In(month); h.Month != month {
		return h // its clock is in an earlier month
	}
	if h.Incarnation != incarnation {
		h.Incarnation, h.Uncounted = incarnation, max(h.Used-used, 0)
	}
	h.Used = max(h.Used, used+h.Uncounted)
	return h
}

// adopt returns the record of a restored hub after a cluster has said what it may use. The argument's field Used is what the
// cluster's own records show.
func (h LoanHours) adopt(a LoanHours) LoanHours {
	if !a.Kept {
		h.Kept, h.Secs, h.Limit = false, 0, 0
		return h
	}
	h = h.report(a.Incarnation, a.Month, a.Used)
	if h.Month == a.Month && a.Uncounted > h.Uncounted {
		h.Uncounted = a.Uncounted
		h.Used = max(h.Used, a.Used+h.Uncounted)
	}
	h.Kept, h.Secs, h.Limit = true, a.Secs, a.Secs
	return h
}

// HoursAnswer is what a cluster says of a tenant's GPU-hours.
type HoursAnswer struct {
	Month string // that its clock shows
	Used  int64  // in this month according to its own records, in GPU-seconds
}

// checkHours decides whether the leader may write the part of a loan that is about GPU-hours. The month of the argument is the
// hub's.
func (l *lending) checkHours(next *Loan) error {
	was, now := l.loan.Hours, next.Hours
	switch known := was.In(now.Month); {
	case now == was, now == LoanHours{} && l.hours == 0:
		return nil
	case l.hours == 0 || now.Kept != was.Kept || now.Incarnation != was.Incarnation || now.Month != known.Month || now.Uncounted != known.Uncounted || now.Used < known.Used:
		return ares.Errorf(ares.Fenced, "the GPU-hours of tenant %s in cluster %s have changed", next.Tenant, next.Cluster)
	case now.Secs < was.Secs:
		return ares.Errorf(ares.Conflict, "only an answer of cluster %s lowers the GPU-hours that are lent to it for tenant %s", next.Cluster, next.Tenant)
	case now.Secs == was.Secs:
		return nil
	case !was.Kept:
		return ares.Errorf(ares.Fenced, "cluster %s has not said yet that it keeps to the GPU-hours of tenant %s", next.Cluster, next.Tenant)
	}
	others := int64(0)
	for i := range l.hoursOfOthers {
		others += l.hoursOfOthers[i].Taken(now.Month)
	}
	if budget := 3600 * int64(l.hours); others+now.Taken(now.Month) > budget {
		return ares.Errorf(ares.QuotaExceeded, "tenant %s has a budget of %d GPU-seconds a month, and other clusters may use %d: cluster %s cannot get %d", next.Tenant, budget, others, next.Cluster, now.Secs)
	}
	return nil
}

// answered adds what a cluster says of GPU-hours to the record. The cluster keeps to the limit of this record from now on.
func (l *lending) answered(next *Loan, incarnation string, a *HoursAnswer) {
	if a == nil || l.hours == 0 || a.Month < next.Hours.Month {
		return
	}
	h := next.Hours.report(incarnation, a.Month, a.Used)
	h.Kept, h.Secs = true, h.Limit
	next.Hours = h
}

// ended returns what is left of the loan of a cluster that is no member any more: what it has used in this month.
func (l *lending) ended(month string) (left Loan, any bool) {
	h := l.loan.Hours.In(month)
	if l.hours == 0 || h.Used == 0 {
		return Loan{}, false
	}
	left = l.loan
	left.GPUs, left.Limit, left.Fresh = 0, 0, true
	left.Hours = LoanHours{Month: h.Month, Used: h.Used, Incarnation: h.Incarnation}
	return left, true
}

func loanHoursRecord(h *LoanHours) *storepb.LoanHours {
	if *h == (LoanHours{}) {
		return nil
	}
	return &storepb.LoanHours{Kept: h.Kept, GpuSeconds: h.Secs, Limit: h.Limit, Month: h.Month, Used: h.Used, Uncounted: h.Uncounted, Incarnation: h.Incarnation}
}

func loanHoursOf(m *storepb.LoanHours) LoanHours {
	return LoanHours{
		Kept: m.GetKept(), Secs: m.GetGpuSeconds(), Limit: m.GetLimit(), Month: m.GetMonth(), Used: m.GetUsed(), Uncounted: m.GetUncounted(), Incarnation: m.GetIncarnation(),
	}
}
