package federation

import (
	"context"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/loan"
	"github.com/ares-scheduler/ares/store"
)

// A tenant's GPU limit at the hub holds for all clusters together, and each cluster keeps to its part of it, its loan, even
// while it cannot reach the hub (F10). To raise a loan, the hub writes its record and then tells the cluster. To lower it, the
// hub asks; the cluster lowers its limit and answers what it still uses; then the hub writes that, and may lend it to others.
//
// Invariant: at any time, every cluster uses at most what the hub's record of its loan says.

// lending is what the leader knows of the loans. Only the goroutine of the term's rounds uses it.
type lending struct {
	records map[string]map[string]store.Loan // by tenant and cluster; nil if they must be read
	at      time.Time                        // of the last division
	held    []ares.JobID                     // jobs whose offers were not told to a member that has no loan yet
}

// A loanAnswer is an answer that waits for the next round.
type loanAnswer struct {
	s *session
	m *apipb.LoanAnswer
}

// loanAnswered passes the answer of a member to the next round.
func (s *session) loanAnswered(m *apipb.LoanAnswer) {
	s.t.mu.Lock()
	s.t.loanAnswers = append(s.t.loanAnswers, loanAnswer{s, m})
	s.t.mu.Unlock()
	wake(s.t.changed)
}

// The method `lend` writes the answers of members, divides the limits of the tenants once in an interval and after answers, and
// tells the members.
func (t *term) lend(ctx context.Context) error {
	t.mu.Lock()
	answers := t.loanAnswers
	t.loanAnswers = nil
	due := len(answers) > 0 || t.lendDue || time.Since(t.lending.at) >= min(t.Interval, t.Heartbeat)
	t.lendDue = false
	t.mu.Unlock()
	if !due {
		return nil
	}
	t.lending.at = time.Now()
	for _, a := range answers {
		if err := t.writeAnswer(ctx, a); err != nil {
			return err
		}
	}
	if err := t.readLoans(ctx); err != nil {
		return err
	}
	in := t.loanInput()
	for _, id := range slices.Sorted(maps.Keys(in)) {
		if err := t.lendTenant(ctx, in[id]); err != nil || t.lending.records == nil {
			return err // without records, the next round decides
		}
	}
	return nil
}

func (t *term) readLoans(ctx context.Context) error {
	if t.lending.records != nil {
		return nil
	}
	list, err := t.Store.Loans(ctx)
	if err != nil {
		return err
	}
	t.lending.records = map[string]map[string]store.Loan{}
	for _, l := range list {
		t.lending.set(l)
	}
	return nil
}

// The method `set` takes over a record that was just written, unless all records must be read again anyway.
func (l *lending) set(r store.Loan) {
	if l.records == nil {
		return
	}
	if l.records[r.Tenant] == nil {
		l.records[r.Tenant] = map[string]store.Loan{}
	}
	l.records[r.Tenant][r.Cluster] = r
}

// writeAnswer writes what a cluster may still use after it has lowered its limit.
func (t *term) writeAnswer(ctx context.Context, a loanAnswer) error {
	if a.s.ctx.Err() != nil || a.m.GetHub() != t.me || a.m.GetGpus() < 0 {
		return nil
	}
	cluster := a.s.hello.Cluster
	// gofail: var hubBeforeLoanAnswer struct{}
	got, err := t.Store.LoanAnswered(ctx, t.lead, store.LoanAnswer{
		Tenant: a.m.GetTenantId(), Cluster: cluster, Incarnation: a.m.GetIncarnation(), Version: a.m.GetVersion(), GPUs: int(a.m.GetGpus()), Hours: t.hoursAnswer(a.m.GetHours()),
	})
	// gofail: var hubAfterLoanAnswer struct{}
	if err != nil {
		return t.lendingFailed(err)
	}
	t.lending.set(got)
	return nil
}

// lendingFailed returns nil for a write that was refused because something has changed. The loans are then read again.
func (t *term) lendingFailed(err error) error {
	t.lending.records = nil
	switch ares.CodeOf(err) {
	case ares.Fenced, ares.Conflict, ares.QuotaExceeded, ares.Exhausted, ares.Unavailable:
		t.Log.Info("a loan was not written, and is decided again", "error", err)
		t.mu.Lock()
		t.lendDue = true
		t.mu.Unlock()
		return nil
	}
	return err
}

// lendTenant decides about the loans of one tenant, writes what changes, and tells the members.
func (t *term) lendTenant(ctx context.Context, in *tenantLoans) error {
	if err := t.endLoans(ctx, in); err != nil || t.lending.records == nil {
		return err
	}
	t.shareTenant(in)
	records := t.lending.records[in.id]
	if in.quota() >= ares.Unlimited && in.budget() == 0 && len(records) == 0 {
		return nil
	}
	clusters, settled, err := t.loanClusters(ctx, in)
	if err != nil || t.lending.records == nil {
		return err
	}
	t.divideHours(in, clusters)
	targets := make([]int, len(clusters))
	for i := range targets {
		targets[i] = ares.Unlimited
	}
	if in.quota() < ares.Unlimited {
		targets = loan.Divide(in.quota(), clusters, in.wants, t.Now())
	}
	// First what is lowered: a raise may need it.
	for _, raise := range []bool{false, true} {
		for i := range clusters {
			c := &clusters[i]
			was := t.lending.records[in.id][c.Name]
			next := was
			if !c.Fixed && (targets[i] > c.Loan) == raise && (!raise || settled) {
				t.changeGPUs(in, &next, targets[i])
			}
			t.changeHours(in, &next, raise)
			if next == was {
				continue
			}
			if err = t.writeLoan(ctx, next); err != nil {
				return t.lendingFailed(err)
			}
		}
	}
	t.tellLoans(in, clusters)
	return nil
}

// endLoans deletes the loans of clusters that are no members any more: they come back.
func (t *term) endLoans(ctx context.Context, in *tenantLoans) error {
	for _, name := range slices.Sorted(maps.Keys(in.clusters)) {
		t.mu.Lock()
		c, known := t.clusters[name]
		t.mu.Unlock()
		if known && c.MayOwn() && c.Runs(in.id) {
			continue
		}
		delete(in.clusters, name)
		r, lent := t.lending.records[in.id][name]
		if !lent || t.hasEnded(in, &r) {
			continue
		}
		left, err := t.Store.EndLoan(ctx, t.lead, nil, in.id, name, t.month())
		if err != nil {
			return t.lendingFailed(err)
		}
		t.Log.Info("a loan has come back", "tenant", in.id, "cluster", name, "used_gpu_seconds", left.Hours.Used)
		delete(t.lending.records[in.id], name)
		if left.Revision != 0 {
			t.lending.set(left)
		}
	}
	return nil
}

// changeGPUs sets the devices that a connected cluster should have. A raise that does not fit yet waits for the answers of others.
func (t *term) changeGPUs(in *tenantLoans, next *store.Loan, target int) {
	if target < next.GPUs {
		next.Limit = target // it is asked, and what it may use stays until it has answered
		return
	}
	others := 0
	for name, r := range t.lending.records[in.id] { // order-free: a sum
		if name != next.Cluster {
			others += r.GPUs
		}
	}
	if quota := in.quota(); target > next.GPUs && quota < ares.Unlimited && others+target > quota {
		return
	}
	next.GPUs, next.Limit = target, target
}

// writeLoan writes a loan before the cluster is told.
func (t *term) writeLoan(ctx context.Context, next store.Loan) error {
	// gofail: var hubBeforeLend struct{}
	got, err := t.Store.Lend(ctx, t.lead, next)
	// gofail: var hubAfterLend struct{}
	if err != nil {
		return err
	}
	t.lending.set(got)
	t.Log.Debug("a loan was changed", "tenant", got.Tenant, "cluster", got.Cluster, "gpus", got.GPUs, "limit", got.Limit,
		"gpu_seconds", got.Hours.Secs, "gpu_seconds_limit", got.Hours.Limit, "used_gpu_seconds", got.Hours.Used)
	return nil
}
