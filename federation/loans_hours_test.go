package federation_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// budget sets the tenant's GPU-hours for a month.
func (h *hub) budget(hours int) {
	h.t.Helper()
	h.edit(func(t *ares.Tenant) { t.GPUHours = hours })
}

// watchHours checks at every revision of the hub's store that no more than a budget is lent, until the function `stop` is called.
func watchHours(h *hub, hours int) (stop func()) {
	check := newQuotaCheck(h.t, math.MaxInt)
	check.budget = hours
	return check.watchLoans(h)
}

// awaitHours waits until the hub and a member agree about GPU-seconds.
func (h *hub) awaitHours(m *member, secs int64) {
	h.t.Helper()
	var t *ares.Tenant
	var r store.Loan
	defer func() {
		if h.t.Failed() {
			h.t.Logf("%s has the record %+v and the loan %+v", m.name, r, t.Loan)
		}
	}()
	controltest.Await(h.t, m.view, fmt.Sprintf("%d GPU-seconds in %s", secs, m.name), func() bool {
		t, r = m.view.Tenant(h.tenant.ID), h.loanOf(m)
		return t != nil && t.Loan != nil && t.Loan.Budget.Hours > 0 && t.Loan.Budget.Secs == secs && r.Hours.Kept && r.Hours.Secs == secs && r.Hours.Limit == secs
	})
}

// awaitLent waits until members have all of a budget.
func (h *hub) awaitLent(hours int, members ...*member) {
	h.t.Helper()
	controltest.Await(h.t, h.view, "the whole budget to be lent", func() bool {
		sum := int64(0)
		for _, m := range members {
			r := h.loanOf(m).Hours
			if t := m.view.Tenant(h.tenant.ID); !r.Kept || t.Loan == nil || t.Loan.Budget.Hours == 0 || t.Loan.Budget.Secs != r.Secs {
				return false
			}
			sum += r.Secs
		}
		return sum == 3600*int64(hours)
	})
}

// The method `spend` adds GPU-seconds to what the hub's tenant has used in the member this month, as archived jobs do. The gate of
// the member must be open.
func (m *member) spend(h *hub, gpuSecs int64) {
	m.t.Helper()
	id := m.submitHere(h, gpus(0))
	m.await(id, ares.Succeeded)
	controltest.Await(m.t, m.view, "the job to be archived", func() bool {
		e := m.view.Job(id)
		u, err := m.s.Usage(m.t.Context(), e.Job.Tenant, e.Job.Queue)
		if err != nil {
			m.t.Fatal(err)
		}
		u.At, u.Month, u.GPUSecs = time.Now(), time.Now().UTC().Format(ares.MonthForm), u.GPUSecs+gpuSecs
		return e.Run.Free() && m.s.ArchiveUsed(m.t.Context(), e.Job, &e.Run, &u, nil, math.MaxInt64-1) == nil
	})
	controltest.CaughtUp(m.t, m.s, m.view)
}

// waitsForHours waits until a job waits in a member because its tenant has used the hours that were lent.
func (m *member) waitsForHours(id ares.JobID) {
	m.t.Helper()
	controltest.Await(m.t, m.view, "job "+string(id)+" to wait for GPU-hours", func() bool {
		for _, b := range m.uplink.Explain(id).Blockers {
			if b.Kind == ares.BlockerBudget && strings.Contains(b.Detail.String(), "is a tenant of the hub, which lets its jobs use") {
				return true
			}
		}
		return false
	})
	if e := m.view.Job(id); e.Run.Placed > 0 {
		m.t.Errorf("the job was started: %+v", e.Run)
	}
}

// TestHours lets a tenant use its budget in two clusters. What was not used must follow the jobs, and no job may start after the
// whole budget was used up.
func TestHours(t *testing.T) {
	h := newHub(t)
	h.budget(2)
	defer watchHours(h, 2)()
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	close(a.gate)
	close(b.gate)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	h.awaitLent(2, a, b)
	h.await(h.submit(gpus(1), inB), ares.Succeeded) // so b has a part, although a may have been lent everything before b was there
	had := h.loanOf(a).Hours.Secs
	a.spend(h, had)
	h.await(h.submit(gpus(1), inA), ares.Succeeded) // it gets hours of b
	got := h.loanOf(a).Hours
	if got.Secs <= had {
		t.Errorf("a has used its loan of %d, and now it has %+v", had, got)
	}
	h.await(h.submit(gpus(8), inB), ares.Succeeded)
	b.spend(h, 7200-had)
	local := b.submitHere(h, gpus(1))
	b.waitsForHours(local)
	h.budget(3)
	b.await(local, ares.Succeeded)
	h.budget(0)
	controltest.Await(t, b.view, "the end of the budget", func() bool { return b.view.Tenant(h.tenant.ID).Loan.Budget.Hours == 0 })
	h.await(h.submit(gpus(8), inA), ares.Succeeded)
}

// TestBudgetOfATenantThatHasUsedHours gives a budget to a tenant that has used hours in a cluster. They count.
func TestBudgetOfATenantThatHasUsedHours(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	close(a.gate)
	close(b.gate)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	a.spend(h, 3000)
	defer watchHours(h, 1)()
	h.budget(1)
	h.awaitLent(1, a, b)
	if l := h.loanOf(b).Hours; l.Secs > 600 {
		t.Errorf("3000 of 3600 GPU-seconds were used in a, and b may use %+v", l)
	}
}

// TestSilentClusterKeepsItsHours cuts a cluster off. Its hours must stay until it is declared dead. Then those come back that were
// not used.
func TestSilentClusterKeepsItsHours(t *testing.T) {
	h := newHub(t)
	h.budget(2)
	defer watchHours(h, 2)()
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	close(a.gate)
	close(b.gate)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	h.awaitLent(2, a, b)
	lent := h.loanOf(a).Hours.Secs
	a.spend(h, 1000)
	controltest.Await(t, h.view, "the use to be written", func() bool { return h.loanOf(a).Hours.Used >= 1000 })
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	local := a.submitHere(h, gpus(8)) // it may use them without the hub
	a.await(local, ares.Succeeded)
	b.spend(h, 7200-lent)
	waits := b.submitHere(h, gpus(1))
	b.waitsForHours(waits)
	if got := h.loanOf(a).Hours; got.Secs != lent {
		t.Errorf("the hours of the silent cluster are %+v, want %d", got, lent)
	}
	if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
		c.Decided, c.StateSince = store.ClusterDead, time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b.await(waits, ares.Succeeded)
	if got := h.loanOf(a).Hours; got.Secs != 0 || got.Used < 1000 {
		t.Errorf("of the dead cluster's loan is left: %+v", got)
	}
	if got := h.loanOf(b).Hours; got.Secs > 6200 {
		t.Errorf("1000 of 7200 GPU-seconds were used in the dead cluster, and b may use %+v", got)
	}
}

// TestRestoredMemberHasUsedHours restores a member from a backup without most of its use. It must start nothing before the hub has
// confirmed its loan, and then what was used stays used.
func TestRestoredMemberHasUsedHours(t *testing.T) {
	h := newHub(t)
	h.budget(2)
	defer watchHours(h, 2)()
	a := newMember(t, h, "a")
	defer explainLoans(h, a)
	h.federate(a)
	h.awaitHours(a, 7200)
	file := backup(t, a.s)
	close(a.gate)
	a.spend(h, 6000)
	controltest.Await(t, h.view, "the use to be written", func() bool { return h.loanOf(a).Hours.Used >= 6000 })
	a.stop()
	a.wire.set(true)

	a.s = restore(t, file)
	a.start()
	if got, err := a.s.Tenant(t.Context(), h.tenant.ID); err != nil || got.Loan == nil || got.Loan.Budget.Secs != 0 || got.Loan.Budget.Hours != 2 {
		t.Errorf("the loan of the restored cluster is %+v, %v", got.Loan, err)
	}
	a.node.Open(t, a.s, 5*time.Minute)
	controltest.Agent(t, a.s, a.view, a.node, a.gate)
	local := a.submitHere(h, gpus(1))
	a.waitsForHours(local)
	a.wire.set(false)
	a.await(local, ares.Succeeded)
	got := h.loanOf(a).Hours
	if limit, _ := a.view.Tenant(h.tenant.ID).LentSeconds(got.Month); got.Used < 6000 || got.Uncounted < 6000 || limit > 1200 {
		t.Errorf("6000 of 7200 GPU-seconds were used before the restore, and the cluster may use %d with the record %+v", limit, got)
	}
}

// TestRestoredHubAsksForHours restores the hub from a backup in which another cluster has the hours, and less is used.
func TestRestoredHubAsksForHours(t *testing.T) {
	h := newHub(t)
	h.budget(2)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	close(a.gate)
	close(b.gate)
	h.federate(a)
	h.federate(b)
	h.awaitKnown("b")
	h.awaitLent(2, a, b)
	file := backup(t, h.s)
	b.spend(h, h.loanOf(b).Hours.Secs)
	h.await(h.submit(gpus(4), inB), ares.Succeeded)
	controltest.Await(t, b.view, "more hours in b", func() bool { return b.view.Tenant(h.tenant.ID).Loan.Budget.Secs == h.loanOf(b).Hours.Secs })
	had := h.loanOf(b).Hours
	h.stop()

	h.s = restore(t, file)
	defer watchHours(h, 2)()
	h.start(h.addr)
	h.awaitLent(2, a, b)
	if got := h.loanOf(b).Hours; got.Secs < had.Secs || got.Used < had.Used {
		t.Errorf("b had %+v, and after the restore of the hub it has %+v", had, got)
	}
	h.await(h.submit(gpus(1), inB), ares.Succeeded)
}

// TestHoursAndOtherMonths sets the clock of the hub to another month. The hub must not move the hours of its clusters then.
func TestHoursAndOtherMonths(t *testing.T) {
	h := newHub(t)
	h.limit(8)
	h.budget(2)
	a := newMember(t, h, "a")
	defer explainLoans(h, a)
	h.federate(a)
	h.awaitHours(a, 7200)
	h.awaitLoan(a, 8)
	h.stop()
	h.now = func() time.Time { return time.Now().AddDate(0, 2, 0) }
	h.start(h.addr)
	h.edit(func(t *ares.Tenant) { t.Limits.GPUs, t.GPUHours = 4, 1 })
	h.awaitLoan(a, 4)
	if got := h.loanOf(a).Hours; got.Secs != 7200 || got.Limit != 7200 {
		t.Fatalf("the clocks show different months, and the hours became %+v", got)
	}
	h.stop()
	h.now = nil
	h.start(h.addr)
	h.awaitHours(a, 3600)
}

// TestHoursHold uses up a budget while messages are lost, links are cut and the hub's leader changes. The loans must never exceed
// the budget, and no cluster may start a job after it has used its loan.
func TestHoursHold(t *testing.T) {
	const hours, piece = 3, 300
	var seen atomic.Int64
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &lossy{stream, &seen})
		}))
	})
	h.budget(hours)
	defer watchHours(h, hours)()
	var members []*member
	for _, name := range []string{"a", "b"} {
		m := newMember(t, h, name)
		close(m.gate)
		h.federate(m)
		members = append(members, m)
		h.awaitKnown(name)
	}
	defer explainLoans(h, members...)
	h.awaitLent(hours, members...)
	random := rand.New(rand.NewPCG(3, 4))
	spent := int64(0)
	for round := range 12 {
		m := members[random.IntN(2)]
		loan := m.view.Tenant(h.tenant.ID).Loan.Budget
		if used, _ := m.s.Usage(t.Context(), h.tenant.ID, ares.DefaultQueue); used.GPUSecs+4*piece <= loan.Secs {
			m.spend(h, 4*piece)
			spent += 4 * piece
		}
		cut := members[random.IntN(2)]
		cut.wire.set(true)
		if round%4 == 3 {
			h.stop()
			h.start(h.addr)
		}
		cut.awaitMode(grant.Autonomous)
		cut.wire.set(false)
		cut.awaitMode(grant.Federated)
	}
	for _, m := range members {
		used, err := m.s.Usage(t.Context(), h.tenant.ID, ares.DefaultQueue)
		if err != nil {
			t.Fatal(err)
		}
		controltest.Await(t, m.view, "the use of "+m.name+" to be written", func() bool { return h.loanOf(m).Hours.Used >= used.GPUSecs })
	}
	if spent > 3600*hours {
		t.Errorf("%d GPU-seconds of %d hours were used", spent, hours)
	}
	h.await(h.submit(gpus(1)), ares.Succeeded)
}

// noHours is a stream of the hub on which members are of a version that knows no loans of GPU-hours.
type noHours struct{ grpc.ServerStream }

func (s *noHours) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if got, is := m.(*apipb.MemberMessage); is {
		if got.GetHello() != nil {
			got.GetHello().KeepsHours = false
		}
		if got.GetLoan() != nil {
			got.GetLoan().Hours = nil
		}
	}
	return err
}

// TestClusterKnowsNoHours has a cluster of a version that knows no loans of GPU-hours. Its jobs must run, and its use must not keep
// jobs from others.
func TestClusterKnowsNoHours(t *testing.T) {
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noHours{stream})
		}))
	})
	h.budget(1)
	a := newMember(t, h, "a")
	close(a.gate)
	h.federate(a)
	h.await(h.submit(gpus(8)), ares.Succeeded)
	if l := h.loanOf(a); l.Hours != (store.LoanHours{}) || a.view.Tenant(h.tenant.ID).Loan.Budget.Hours != 0 {
		t.Errorf("the cluster has the loan %+v", l)
	}
}
