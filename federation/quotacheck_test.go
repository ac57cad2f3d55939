package federation_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
)

// A quotaCheck checks that the loans and the use of the hub's tenant stay within a limit (O8). What a member releases is counted
// before the member itself knows of it, so before the hub can lend it to another member: the sum is never too high by delay.
type quotaCheck struct {
	t     *testing.T
	limit int
	// budget is the tenant's GPU-hours for a month.
	budget int

	mu    sync.Mutex
	use   map[string]map[ares.JobID]int // by member
	loans map[string]int                // by member
	hours map[string]int64              // GPU-seconds by member
	most  int
}

func newQuotaCheck(t *testing.T, limit int) *quotaCheck {
	return &quotaCheck{t: t, limit: limit, use: map[string]map[ares.JobID]int{}, loans: map[string]int{}, hours: map[string]int64{}}
}

// The method `sink` returns the sink of a member's view.
func (q *quotaCheck) sink(member, tenant string) func(ares.Batch) {
	jobs := map[ares.JobID]bool{}
	return func(b ares.Batch) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if b.Reset || q.use[member] == nil {
			q.use[member] = map[ares.JobID]int{}
		}
		for i := range b.Events {
			switch e := &b.Events[i]; {
			case e.Job != nil && e.Job.Tenant == tenant:
				jobs[e.Job.ID] = true
			case e.Run != nil && jobs[e.Run.Job]:
				held := 0
				for k := range e.Run.Run.Attempts {
					for n := range e.Run.Run.Attempts[k].Seats {
						if s := &e.Run.Run.Attempts[k].Seats[n]; !s.State.Settled() {
							held += len(s.Shares)
						}
					}
				}
				q.use[member][e.Run.Job] = held
			case e.Gone.Kind == ares.KindJob:
				delete(q.use[member], ares.JobID(e.Gone.ID))
			}
		}
		sum := 0
		for _, use := range q.use { // order-free: sums
			for _, n := range use {
				sum += n
			}
		}
		if q.most = max(q.most, sum); sum > q.limit {
			q.t.Errorf("the jobs use %d devices of %d: %v", sum, q.limit, q.use)
		}
	}
}

// The method `member` returns an edit that lets the check see what a member uses.
func (q *quotaCheck) member(h *hub) func(*member) {
	return func(m *member) { m.sink = q.sink(m.name, h.tenant.ID) }
}

// watchLoans checks the loans at every revision of the hub's store, until the function `stop` is called.
func (q *quotaCheck) watchLoans(h *hub) (stop func()) {
	h.t.Helper()
	began := make(chan struct{})
	var last atomic.Int64
	end := controltest.Run(h.t, func(ctx context.Context) error {
		close(began)
		return h.s.DumpWatch(ctx, "loans/"+h.tenant.ID+"/", func(r store.Raw) error {
			var m struct {
				Loan struct {
					GPUs  int
					Hours struct {
						GPUSeconds int64 `json:",string"`
					}
				}
			}
			if !r.Deleted {
				if err := json.Unmarshal([]byte(r.JSON), &m); err != nil {
					q.t.Error(err)
				}
			}
			q.mu.Lock()
			q.loans[r.Key], q.hours[r.Key] = m.Loan.GPUs, m.Loan.Hours.GPUSeconds
			sum := 0
			for _, n := range q.loans {
				sum += n
			}
			secs := int64(0)
			for _, n := range q.hours {
				secs += n
			}
			q.mu.Unlock()
			if secs > 3600*int64(q.budget) {
				q.t.Errorf("at revision %d, %d GPU-seconds of %d hours are lent", r.Revision, secs, q.budget)
			}
			if sum > q.limit {
				q.t.Errorf("at revision %d, %d devices of %d are lent", r.Revision, sum, q.limit)
			}
			last.Store(r.Revision)
			return nil
		})
	})
	<-began
	return func() {
		all, err := h.s.TenantLoans(h.t.Context(), h.tenant.ID)
		if err != nil {
			h.t.Fatal(err)
		}
		newest := int64(0)
		for _, l := range all {
			newest = max(newest, l.Revision)
		}
		controltest.Await(h.t, h.view, "the checks of all loans", func() bool { return last.Load() >= newest })
		end()
	}
}
