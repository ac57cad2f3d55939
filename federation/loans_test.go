package federation_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// limit sets the GPU limit of the hub's tenant.
func (h *hub) limit(gpus int) {
	h.t.Helper()
	h.edit(func(t *ares.Tenant) { t.Limits.GPUs = gpus })
}

func (h *hub) edit(change func(*ares.Tenant)) {
	h.t.Helper()
	t, err := h.s.Tenant(h.t.Context(), h.tenant.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	change(&t)
	if h.tenant, err = h.s.UpdateTenant(h.t.Context(), t); err != nil {
		h.t.Fatal(err)
	}
}

// federate records that a cluster has the hub's tenant, as `ares join --federated` does.
func (h *hub) federate(m *member) {
	h.t.Helper()
	if _, err := h.s.UpdateCluster(h.t.Context(), m.name, func(c *store.Cluster) error {
		c.FederatedTenants = []string{h.tenant.ID}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// loanOf returns the hub's record of a member's loan.
func (h *hub) loanOf(m *member) (out store.Loan) {
	h.t.Helper()
	all, err := h.s.TenantLoans(h.t.Context(), h.tenant.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range all {
		if l.Cluster == m.name {
			out = l
		}
	}
	return out
}

// awaitLoan waits until a member has a loan, and returns after the hub and the member agree about it.
func (h *hub) awaitLoan(m *member, gpus int) {
	h.t.Helper()
	var t *ares.Tenant
	var r store.Loan
	defer func() {
		if h.t.Failed() {
			h.t.Logf("%s has the record %+v and the tenant %+v", m.name, r, t)
		}
	}()
	controltest.Await(h.t, m.view, fmt.Sprintf("a loan of %d in %s", gpus, m.name), func() bool {
		t, r = m.view.Tenant(h.tenant.ID), h.loanOf(m)
		return t != nil && t.Loan != nil && t.Loan.GPUs == gpus && r.GPUs == gpus && !r.Fresh
	})
}

// submitHere accepts a job of the hub's tenant in the member itself.
func (m *member) submitHere(h *hub, edit ...func(*ares.Spec)) ares.JobID {
	m.t.Helper()
	spec := storetest.Sleep()
	for _, e := range edit {
		e(&spec)
	}
	for range 20 { // its loan may change meanwhile
		tenant, err := m.s.Tenant(m.t.Context(), h.tenant.ID)
		if err != nil {
			m.t.Fatal(err)
		}
		ask := storetest.JobOf(tenant, spec)
		got := m.s.Create(m.t.Context(), []store.Creation{ask})[0]
		if got.Err == nil {
			return ask.Job.ID
		}
		if !got.Stale {
			m.t.Fatal(got.Err)
		}
	}
	m.t.Fatal("the tenant keeps changing")
	return ""
}

func gpus(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.GPUs = n } }

// inA makes a job run in cluster a only.
func inA(s *ares.Spec) { s.EditPlacement().Clusters = []string{"a"} }

// explainLoans logs, if the test has failed, what hub and members know of the tenant.
func explainLoans(h *hub, members ...*member) {
	if !h.t.Failed() {
		return
	}
	for _, m := range members {
		t := m.view.Tenant(h.tenant.ID)
		use, waiting := m.view.Use(h.tenant.ID)
		mode, _, why := m.uplink.Mode()
		h.t.Logf("%s: %s %s; record %+v; here %+v; uses %d, %d jobs wait", m.name, mode, why, h.loanOf(m), t.Loan, use.GPUs, waiting)
		m.view.Search(func(j *ares.Job) bool { return j.Tenant == h.tenant.ID }, func(e *cache.Entry) bool {
			h.t.Logf("  %s in %s: %d devices, %s, epoch %+v", e.Job.ID, m.name, e.Job.GPUs, e.Run.Phase, e.Job.Origin)
			return true
		})
	}
	h.view.Search(func(j *ares.Job) bool { return j.Tenant == h.tenant.ID }, func(e *cache.Entry) bool {
		if !e.Run.Phase.Final() {
			h.t.Logf("%s at the hub: %d devices, %s, %+v", e.Job.ID, e.Job.GPUs, e.Run.Phase, storetest.GrantOf(h.t, h.s, e.Job.ID))
		}
		return true
	})
}

// TestLoans lets jobs of a tenant with a limit run in two clusters. The loan must follow the jobs, a cluster must not start more
// than its loan, and jobs that were submitted to a cluster count.
func TestLoans(t *testing.T) { moveLoans(t, newHub(t)) }

// TestLoansWithChooser is TestLoans with a hub that chooses clusters by their summaries.
func TestLoansWithChooser(t *testing.T) { moveLoans(t, newHub(t, func(h *hub) { h.choosing = true })) }

func moveLoans(t *testing.T, h *hub) {
	t.Helper()
	h.limit(8)
	check := newQuotaCheck(t, 8)
	defer check.watchLoans(h)()
	a, b := newMember(t, h, "a", check.member(h)), newMember(t, h, "b", check.member(h))
	defer explainLoans(h, a, b)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	first := h.submit(gpus(8), inA)
	h.await(first, ares.Running)
	second := h.submit(gpus(6), inB)
	h.awaitLoan(b, 0) // before its first loan, its own limits apply
	local := b.submitHere(h, gpus(2))
	b.await(local, ares.Pending)
	if got := h.loanOf(a); got.GPUs != 8 {
		t.Errorf("the loan of a is %+v, and it uses 8", got)
	}
	if use, _ := b.view.Use(h.tenant.ID); use.GPUs > 0 {
		t.Errorf("b uses %+v of nothing", use)
	}
	close(a.gate)
	h.await(first, ares.Succeeded)
	for _, id := range []ares.JobID{second, local} { // the agent of these tests runs one job at a time
		controltest.Await(t, b.view, "both jobs to be placed", func() bool { e := b.view.Job(id); return e != nil && e.Run.Placed > 0 })
	}
	if got := h.loanOf(b); got.GPUs != 8 {
		t.Errorf("the loan of b is %+v, and it uses 8", got)
	}
	close(b.gate)
	h.await(second, ares.Succeeded)
	b.await(local, ares.Succeeded)
}

// TestUnlimitedTenant lets jobs of a tenant without a limit run. Nothing is lent.
func TestUnlimitedTenant(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	h.federate(a)
	close(a.gate)
	h.await(h.submit(gpus(8)), ares.Succeeded)
	if all, err := h.s.Loans(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("loans %+v, %v", all, err)
	}
	if got := a.view.Tenant(h.tenant.ID); got.Loan != nil {
		t.Errorf("the loan in the cluster is %+v", got.Loan)
	}
}

// TestLimitChanges gives a limit to a tenant whose jobs run, lowers it below their use, and takes it away.
func TestLimitChanges(t *testing.T) {
	h := newHub(t)
	a := newMember(t, h, "a")
	h.federate(a)
	running := h.submit(gpus(6))
	h.await(running, ares.Running)
	h.limit(7)
	h.awaitLoan(a, 7)
	h.limit(4) // nothing is stopped
	controltest.Await(t, a.view, "a lower limit", func() bool { return a.view.Tenant(h.tenant.ID).WithinLoan().Limits.GPUs < 7 })
	next := h.submit(gpus(1))
	h.await(next, ares.Pending)
	h.await(running, ares.Running)
	close(a.gate)
	h.await(running, ares.Succeeded)
	h.await(next, ares.Succeeded)
	h.awaitLoan(a, 4)
	h.limit(ares.Unlimited)
	h.awaitLoan(a, ares.Unlimited)
	h.await(h.submit(gpus(8)), ares.Succeeded)
}

// TestSilentClusterKeepsItsLoan cuts a cluster off that uses nothing. Its loan must stay until it is declared dead.
func TestSilentClusterKeepsItsLoan(t *testing.T) {
	h := newHub(t)
	h.limit(8)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	close(a.gate)
	h.await(h.submit(gpus(4), inA), ares.Succeeded)
	controltest.Await(t, h.view, "the whole quota to be lent", func() bool { return h.loanOf(a).GPUs+h.loanOf(b).GPUs == 8 })
	kept := h.loanOf(a).GPUs
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	local := a.submitHere(h, gpus(kept)) // it may use its loan without the hub
	a.await(local, ares.Succeeded)
	big := h.submit(gpus(8), inB)
	h.awaitLoan(b, 8-kept)
	h.await(big, ares.Pending)
	if got := h.loanOf(a); got.GPUs != kept {
		t.Errorf("the loan of the silent cluster is %+v, want %d", got, kept)
	}
	if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
		c.Decided, c.StateSince = store.ClusterDead, time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.await(big, ares.Running)
	a.wire.set(false) // it learns of its death, and has no loan then
	h.awaitLoan(a, 0)
	close(b.gate)
	h.await(big, ares.Succeeded)
}

// TestFirstLoan lets a tenant get a limit while a cluster runs a job that was submitted there. What this job uses must count before
// another cluster gets a loan.
func TestFirstLoan(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(a)
	h.awaitKnown("b")
	running := a.submitHere(h, gpus(6))
	a.await(running, ares.Running)
	h.limit(8)
	large, small := h.submit(gpus(8), inB), h.submit(gpus(2), inB)
	placed := func(id ares.JobID) bool { e := b.view.Job(id); return e != nil && e.Run.Placed > 0 }
	controltest.Await(t, b.view, "one of the jobs to be placed", func() bool { return placed(large) || placed(small) })
	if placed(large) {
		t.Errorf("6 of 8 devices are in use in one cluster, and a job of 8 was started in the other one: %+v, %+v", h.loanOf(a), h.loanOf(b))
	}
	close(a.gate)
	close(b.gate)
	h.await(large, ares.Succeeded)
}

// TestClaimsWithinTheLoan offers many jobs to a cluster that has a small loan and many free devices. It must claim only as many as
// the loan lets it start: another cluster may have a loan for the others.
func TestClaimsWithinTheLoan(t *testing.T) {
	h := newHub(t)
	h.limit(2)
	a := newMember(t, h, "a")
	h.federate(a)
	h.awaitLoan(a, 2)
	for range 6 {
		h.submit(gpus(1))
	}
	use := func() int { u, _ := a.view.Use(h.tenant.ID); return u.GPUs }
	controltest.Await(t, a.view, "the loan to be used", func() bool { return use() == 2 })
	controltest.CaughtUp(t, h.s, h.view)
	grants, _, err := h.s.Grants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, g := range grants {
		if g.State == ares.GrantBound {
			bound++
		}
	}
	if bound != 2 {
		t.Errorf("the cluster has claimed %d jobs with a loan of 2", bound)
	}
	close(a.gate)
}
