package federation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/loan"
	"github.com/ares-scheduler/ares/federation/summary"
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

// toldLoan is what a member was told of a loan in this session.
type toldLoan struct {
	version int64
	quota   int
	at      time.Time // the last time
	first   time.Time // the first time, for this version
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
		Tenant: a.m.GetTenantId(), Cluster: cluster, Incarnation: a.m.GetIncarnation(), Version: a.m.GetVersion(), GPUs: int(a.m.GetGpus()),
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

// tenantLoans is everything that decides about the loans of one tenant.
type tenantLoans struct {
	tenant   *ares.Tenant // nil if it was deleted
	id       string
	clusters map[string]*clusterLoan
	wants    []loan.Want
}

// clusterLoan is what the leader knows of one tenant in one cluster.
type clusterLoan struct {
	used    int // by jobs of the hub, as far as the hub knows
	waiting int // for jobs of the hub that the cluster owns
}

func (in *tenantLoans) cluster(name string) *clusterLoan {
	if in.clusters[name] == nil {
		in.clusters[name] = &clusterLoan{}
	}
	return in.clusters[name]
}

// loanInput returns the tenants for which something has to be decided or told, with the clusters that run their jobs: those that
// have the tenant, and those that have an offer, a job or a loan. The other clusters do not learn of the tenant.
func (t *term) loanInput() map[string]*tenantLoans {
	out := map[string]*tenantLoans{}
	of := func(id string) *tenantLoans {
		if out[id] == nil {
			out[id] = &tenantLoans{tenant: t.view.Tenant(id), id: id, clusters: map[string]*clusterLoan{}}
		}
		return out[id]
	}
	for tenant, loans := range t.lending.records { // order-free: sets
		for cluster := range loans { // order-free: a set
			of(tenant).cluster(cluster)
		}
	}
	federated := map[string][]string{} // read first: the view must not be asked under the term's lock
	t.mu.Lock()
	for name := range t.clusters { // order-free: sets
		federated[name] = t.clusters[name].FederatedTenants
	}
	t.mu.Unlock()
	for name, tenants := range federated { // order-free: sets
		for _, id := range tenants {
			if t.view.Tenant(id) != nil {
				of(id).cluster(name)
			}
		}
	}
	t.Hub.mu.Lock()
	grants := slices.Collect(maps.Values(t.grants))
	t.Hub.mu.Unlock()
	for _, g := range grants {
		if e := t.view.Job(g.Job); e != nil {
			of(e.Job.Tenant).addGrant(e, g)
		}
	}
	return out
}

// addGrant adds what a job uses in its cluster, or what it needs in one of the clusters that may get it.
func (in *tenantLoans) addGrant(e *entry, g *ares.Grant) {
	asks := e.Job.Asks()
	gpus := wholeGPUs(asks)
	switch {
	case g.State == ares.GrantOffered:
		for _, name := range g.Clusters {
			in.cluster(name)
		}
		in.wants = append(in.wants, loan.Want{Clusters: g.Clusters, GPUs: gpus, Since: e.Job.AcceptedAt, ID: string(e.Job.ID)})
	case e.Run.Current() != nil:
		in.cluster(g.Cluster).used += gpus
	case e.Run.Phase.Waiting():
		in.cluster(g.Cluster).waiting += gpus
		in.wants = append(in.wants, loan.Want{Clusters: []string{g.Cluster}, GPUs: gpus, Since: e.Job.AcceptedAt, ID: string(e.Job.ID)})
	}
}

// quota returns the tenant's limit for all clusters together.
func (in *tenantLoans) quota() int {
	if in.tenant == nil {
		return ares.Unlimited
	}
	return in.tenant.Limits.GPUs
}

// lendTenant decides about the loans of one tenant, writes what changes, and tells the members.
func (t *term) lendTenant(ctx context.Context, in *tenantLoans) error {
	if err := t.endLoans(ctx, in); err != nil || t.lending.records == nil {
		return err
	}
	t.shareTenant(in)
	records := t.lending.records[in.id]
	if in.quota() >= ares.Unlimited && len(records) == 0 {
		return nil
	}
	clusters, settled, err := t.loanClusters(ctx, in)
	if err != nil || t.lending.records == nil {
		return err
	}
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
			if c := &clusters[i]; !c.Fixed && (targets[i] > c.Loan) == raise && (!raise || settled) {
				if err = t.setLoan(ctx, in, c.Name, targets[i]); err != nil {
					return t.lendingFailed(err)
				}
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
		if _, lent := t.lending.records[in.id][name]; !lent {
			continue
		}
		if err := t.Store.EndLoan(ctx, t.lead, nil, in.id, name); err != nil {
			return t.lendingFailed(err)
		}
		t.Log.Info("a loan has come back", "tenant", in.id, "cluster", name)
		delete(t.lending.records[in.id], name)
	}
	return nil
}

// shareTenant tells the connected members what the hub decides about the tenant.
func (t *term) shareTenant(in *tenantLoans) {
	if in.tenant == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range in.clusters { // order-free: sessions are independent
		if s := t.sessions[name]; s != nil && s.open {
			t.shareWith(s, in.tenant)
		}
	}
}

// shareWith tells a member what the hub decides about a tenant, if it was not told yet. The caller holds the term's lock.
func (t *term) shareWith(s *session, of *ares.Tenant) {
	if of == nil || s.shared[of.ID] == of.Revision {
		return
	}
	if s.shared == nil {
		s.shared = map[string]int64{}
	}
	s.shared[of.ID] = of.Revision
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Tenant{Tenant: &apipb.SharedTenant{
		TenantId: of.ID, Version: of.Revision, Hub: t.me, Name: of.Name, PriorityTier: string(of.PriorityTier),
		Weight: of.Weight, WeightMin: of.WeightMin, WeightMax: of.WeightMax, MayPreempt: of.MayPreempt,
	}}})
}

// loanClusters returns the clusters between which the limit is divided, sorted by name. A connected cluster without a loan gets
// its first one, which asks it what it uses. While such an answer is missing, the result `settled` is false: nothing may be
// raised, because what these clusters use is not known. A cluster that does not answer for as long as a silent one is not waited
// for: it must not keep the tenant's jobs in all clusters from starting.
func (t *term) loanClusters(ctx context.Context, in *tenantLoans) (out []loan.Cluster, settled bool, err error) {
	settled = true
	for _, name := range slices.Sorted(maps.Keys(in.clusters)) {
		t.mu.Lock()
		s := t.sessions[name]
		c := t.clusters[name]
		open := s != nil && s.open && c.Incarnation == s.hello.Incarnation
		keeps := open && s.info.GetKeepsLoans()
		r, lent := t.lending.records[in.id][name]
		lc := loan.Cluster{Name: name, Closed: c.Decided != store.ClusterReady, Loan: r.GPUs}
		overdue := false
		if open {
			in.addSummary(&lc, s)
			told := s.lent[in.id]
			overdue = told.version == r.Revision && time.Since(told.first) >= grant.Missed*t.Heartbeat
		}
		t.mu.Unlock()
		switch {
		case keeps && !lent:
			r, err = t.Store.Lend(ctx, t.lead, store.Loan{Tenant: in.id, Cluster: name, Fresh: true})
			if err != nil {
				return nil, false, t.lendingFailed(err)
			}
			t.lending.set(r)
			lc.Fixed, settled = true, false
		case keeps && r.Fresh:
			lc.Fixed, settled = true, settled && overdue
		case keeps:
		case lent: // a silent cluster keeps its loan
			lc.Fixed = true
		default: // a cluster of the version before this one, or one that was not heard yet
			lc.Fixed, lc.Loan = true, lc.Used
		}
		out = append(out, lc)
	}
	return out, settled, nil
}

// addSummary adds what a member has reported: its capacity, what the tenant uses there, and what the tenant's own jobs of this
// cluster wait for. The caller holds the term's lock.
func (in *tenantLoans) addSummary(lc *loan.Cluster, s *session) {
	known := in.clusters[lc.Name]
	lc.Used = known.used
	if s.decoded == nil {
		return
	}
	for _, m := range s.decoded.Models {
		lc.Capacity, lc.Free = lc.Capacity+m.Devices, lc.Free+m.Free
	}
	for _, u := range s.decoded.Tenants {
		if u.Tenant != in.id {
			continue
		}
		lc.Used = max(lc.Used, devices(u.GPUMilli))
		local := devices(u.WaitingMilli) - known.waiting
		if local <= 0 {
			break
		}
		in.addLocal(lc, &u, local)
	}
}

// addLocal adds the wants of jobs that were submitted to a cluster. The hub does not know why they wait. So the largest one is a
// want only while the loan has no room for it: if it waits all the same, something else keeps it, and it must not keep the loan
// from others. The smaller ones want no more than what is free there.
func (in *tenantLoans) addLocal(lc *loan.Cluster, u *summary.TenantUse, local int) {
	here, largest := []string{lc.Name}, min(devices(u.LargestMilli), local)
	if lc.Loan-lc.Used < largest {
		in.wants = append(in.wants, loan.Want{Clusters: here, GPUs: largest, Since: u.Since, ID: "local/" + lc.Name})
		local -= largest
	}
	if rest := min(local, lc.Free); rest > 0 {
		in.wants = append(in.wants, loan.Want{Clusters: here, GPUs: rest, Since: u.Since, ID: "local/" + lc.Name, Parts: true})
	}
}

func devices(milli int64) int { return int((milli + 999) / 1000) }

// setLoan writes the loan that a connected cluster should have. A raise that does not fit yet waits for the answers of others.
func (t *term) setLoan(ctx context.Context, in *tenantLoans, cluster string, target int) error {
	was := t.lending.records[in.id][cluster]
	next := was
	switch {
	case target < was.GPUs:
		next.Limit = target // it is asked, and what it may use stays until it has answered
	default:
		others := 0
		for name, r := range t.lending.records[in.id] { // order-free: a sum
			if name != cluster {
				others += r.GPUs
			}
		}
		if quota := in.quota(); target > was.GPUs && quota < ares.Unlimited && others+target > quota {
			return nil
		}
		next.GPUs, next.Limit = target, target
	}
	if next == was {
		return nil
	}
	// gofail: var hubBeforeLend struct{}
	got, err := t.Store.Lend(ctx, t.lead, next)
	// gofail: var hubAfterLend struct{}
	if err != nil {
		return err
	}
	t.lending.set(got)
	t.Log.Debug("a loan was changed", "tenant", in.id, "cluster", cluster, "gpus", got.GPUs, "limit", got.Limit)
	return nil
}

// tellLoans tells the connected members their loans, after they were written. A member that has not answered a lower limit, or
// that uses less than it has answered, is asked again.
func (t *term) tellLoans(in *tenantLoans, clusters []loan.Cluster) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range clusters {
		c := &clusters[i]
		s := t.sessions[c.Name]
		r, lent := t.lending.records[in.id][c.Name]
		if !lent || s == nil || !s.open || !s.info.GetKeepsLoans() {
			continue
		}
		was, lower := s.lent[in.id], r.Limit < r.GPUs || r.Fresh
		again := lower && time.Since(was.at) >= t.Heartbeat && (r.Fresh || c.Used < r.GPUs)
		if was.version == r.Revision && was.quota == in.quota() && !again {
			continue
		}
		if s.lent == nil {
			s.lent = map[string]toldLoan{}
		}
		now := time.Now()
		next := toldLoan{version: r.Revision, quota: in.quota(), at: now, first: now}
		if was.version == r.Revision {
			next.first = was.first
		}
		s.lent[in.id] = next
		s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Loan{Loan: &apipb.LoanNotice{
			TenantId: in.id, Version: r.Revision, Gpus: int32(r.Limit), Incarnation: s.hello.Incarnation, Hub: t.me, Lower: lower, Quota: int32(in.quota()),
		}}})
	}
}

// mayTellOffer reports whether a member may be told of an offer. The member learns of the tenant first. A member that keeps loans
// also learns its loan of a tenant with a limit: until then it would start the job within its own limits only. The caller holds
// the term's lock, so it has asked the view for the tenant before: the view is locked while it waits for the hub's other locks.
func (t *term) mayTellOffer(s *session, of *ares.Tenant) bool {
	t.shareWith(s, of)
	if of == nil || of.Limits.GPUs >= ares.Unlimited || !s.info.GetKeepsLoans() {
		return true
	}
	r, lent := t.lending.records[of.ID][s.hello.Cluster]
	return lent && !r.Fresh && s.lent[of.ID].version > 0
}

// holdOffer notes a job whose offer a member was not told, so that the next round looks at it again. The caller holds the term's
// lock.
func (t *term) holdOffer(id ares.JobID) {
	t.lendDue = true
	t.lending.held = append(t.lending.held, id)
}

// takeHeld returns the jobs that holdOffer noted.
func (l *lending) takeHeld() []ares.JobID {
	out := l.held
	l.held = nil
	return out
}

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
			l := store.Loan{Tenant: a.GetTenantId(), Cluster: s.hello.Cluster, GPUs: int(a.GetGpus()), Limit: int(a.GetGpus())}
			if err = t.Store.AdoptLoan(ctx, t.lead, asking, l); err != nil {
				return err
			}
		}
		for _, l := range list {
			if l.Cluster == s.hello.Cluster && !named[l.Tenant] {
				if err = t.Store.EndLoan(ctx, t.lead, asking, l.Tenant, l.Cluster); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
