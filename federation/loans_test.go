package federation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
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

// A quotaCheck checks that the loans and the use of the hub's tenant stay within a limit (O8). What a member releases is counted
// before the member itself knows of it, so before the hub can lend it to another member: the sum is never too high by delay.
type quotaCheck struct {
	t     *testing.T
	limit int

	mu    sync.Mutex
	use   map[string]map[ares.JobID]int // by member
	loans map[string]int                // by member
	most  int
}

func newQuotaCheck(t *testing.T, limit int) *quotaCheck {
	return &quotaCheck{t: t, limit: limit, use: map[string]map[ares.JobID]int{}, loans: map[string]int{}}
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
			var m struct{ Loan struct{ GPUs int } }
			if !r.Deleted {
				if err := json.Unmarshal([]byte(r.JSON), &m); err != nil {
					q.t.Error(err)
				}
			}
			q.mu.Lock()
			q.loans[r.Key] = m.Loan.GPUs
			sum := 0
			for _, n := range q.loans {
				sum += n
			}
			q.mu.Unlock()
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

// TestRestoredMemberHasNoLoan restores a member from a backup in which it has the whole loan. It must start nothing of the tenant
// before the hub has confirmed its loan, and then what the hub lends.
func TestRestoredMemberHasNoLoan(t *testing.T) {
	h := newHub(t)
	h.limit(8)
	check := newQuotaCheck(t, 8)
	defer check.watchLoans(h)()
	a, b := newMember(t, h, "a"), newMember(t, h, "b") // the restored store shows use that has ended before
	defer explainLoans(h, a, b)
	id := h.submit(gpus(8), inA)
	h.await(id, ares.Running)
	file := backup(t, a.s)
	close(a.gate)
	h.await(id, ares.Succeeded)
	moved := h.submit(gpus(8), inB)
	h.await(moved, ares.Running)
	a.stop()
	a.wire.set(true)

	a.s = restore(t, file)
	a.start()
	if got, err := a.s.Tenant(t.Context(), h.tenant.ID); err != nil || got.Loan == nil || got.Loan.GPUs != 0 {
		t.Errorf("the loan of the restored cluster is %+v, %v", got.Loan, err)
	}
	a.node.Open(t, a.s, 5*time.Minute)
	if err := a.s.Clear(t.Context(), id, a.node.ID, a.node.Session, nil); err != nil { // nothing of it runs there any more
		t.Fatal(err)
	}
	controltest.Agent(t, a.s, a.view, a.node, a.gate)
	local := a.submitHere(h, gpus(4))
	a.await(local, ares.Pending)
	a.wire.set(false)
	a.awaitMode(grant.Federated)
	h.awaitLoan(a, 0)
	if e := a.view.Job(local); e.Run.Placed > 0 {
		t.Errorf("the job was started without a loan: %+v", e.Run)
	}
	close(b.gate)
	h.await(moved, ares.Succeeded)
	a.await(local, ares.Succeeded)
}

// TestRestoredHubAsksForLoans restores the hub from a backup in which another cluster has the loan. The hub must learn who has it.
func TestRestoredHubAsksForLoans(t *testing.T) {
	h := newHub(t)
	h.limit(8)
	check := newQuotaCheck(t, 8)
	a, b := newMember(t, h, "a", check.member(h)), newMember(t, h, "b", check.member(h))
	defer explainLoans(h, a, b)
	h.awaitKnown("b")
	id := h.submit(gpus(8), inA)
	h.await(id, ares.Running)
	moved := h.submit(gpus(8), inB)
	h.awaitLoan(b, 0)
	file := backup(t, h.s)
	close(a.gate)
	h.await(id, ares.Succeeded)
	h.await(moved, ares.Running)
	h.stop()

	h.s = restore(t, file)
	stop := check.watchLoans(h)
	again := b.submitHere(h, gpus(1))
	h.start(h.addr)
	h.awaitLoan(b, 8)
	h.awaitLoan(a, 0)
	b.await(again, ares.Pending)
	close(b.gate)
	h.await(moved, ares.Succeeded)
	b.await(again, ares.Succeeded)
	h.await(h.submit(gpus(8), inA), ares.Succeeded)
	stop()
}

// TestSharedTenant changes a tenant at the hub. The clusters that have it must follow, and a cluster that gets its first job of a
// tenant must get the tenant.
func TestSharedTenant(t *testing.T) {
	h := newHub(t)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(a)
	follows := func(m *member, weight float64) {
		t.Helper()
		controltest.Await(t, m.view, m.name+" to follow the hub", func() bool {
			got := m.view.Tenant(h.tenant.ID)
			return got != nil && got.Shared != nil && got.Weight == weight && got.PriorityTier == ares.High
		})
	}
	h.edit(func(t *ares.Tenant) { t.Weight, t.PriorityTier = 3, ares.High })
	follows(a, 3)
	if got := b.view.Tenant(h.tenant.ID); got.Shared != nil {
		t.Errorf("a cluster without jobs of the tenant has %+v", got)
	}
	a.wire.set(true)
	a.awaitMode(grant.Autonomous)
	h.edit(func(t *ares.Tenant) { t.Weight = 4 })
	a.wire.set(false)
	follows(a, 4)
	close(b.gate)
	h.await(h.submit(inB), ares.Succeeded)
	follows(b, 4)
}

// lossy is a stream of the hub that loses some messages about loans, and ends when it loses one of the hub.
type lossy struct {
	grpc.ServerStream

	seen *atomic.Int64
}

func (s *lossy) SendMsg(m any) error {
	if sent, is := m.(*apipb.HubMessage); is && sent.GetLoan() != nil && s.seen.Add(1)%5 == 0 {
		return errors.New("the stream has lost a message")
	}
	return s.ServerStream.SendMsg(m)
}

func (s *lossy) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if got, is := m.(*apipb.MemberMessage); !is || got.GetLoan() == nil || s.seen.Add(1)%3 != 0 {
			return nil
		}
	}
}

// TestQuotaHolds runs jobs of a tenant with a limit while messages are lost, links are cut and the hub's leader changes. The
// loans and the use must never exceed the limit (O8), and every job must end.
func TestQuotaHolds(t *testing.T) { holdQuota(t, false) }

// TestQuotaHoldsWithChooser is TestQuotaHolds with a hub that chooses clusters by their summaries.
func TestQuotaHoldsWithChooser(t *testing.T) { holdQuota(t, true) }

func holdQuota(t *testing.T, choosing bool) {
	t.Helper()
	const limit = 5
	check := newQuotaCheck(t, limit)
	var seen atomic.Int64
	h := newHub(t, func(h *hub) {
		h.choosing = choosing
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &lossy{stream, &seen})
		}))
	})
	h.limit(limit)
	stop := check.watchLoans(h)
	var members []*member
	for _, name := range []string{"a", "b", "c"} {
		m := newMember(t, h, name, check.member(h))
		close(m.gate)
		members = append(members, m)
		h.awaitKnown(name)
	}
	defer explainLoans(h, members...)
	random := rand.New(rand.NewPCG(1, 2))
	type here struct {
		m  *member
		id ares.JobID
	}
	var jobs []ares.JobID
	var local []here
	for round := range 6 {
		for range 3 {
			jobs = append(jobs, h.submit(gpus(1+random.IntN(limit))))
		}
		m := members[random.IntN(len(members))]
		if m.view.Tenant(h.tenant.ID).Loan != nil { // before, its own limits apply
			local = append(local, here{m, m.submitHere(h, gpus(1+random.IntN(limit)))})
		}
		cut := members[random.IntN(len(members))]
		cut.wire.set(true)
		if round%4 == 3 {
			h.stop()
			h.start(h.addr)
		}
		cut.awaitMode(grant.Autonomous)
		cut.wire.set(false)
		h.await(jobs[random.IntN(len(jobs))], ares.Succeeded)
	}
	for _, id := range jobs {
		h.await(id, ares.Succeeded)
	}
	for _, l := range local {
		l.m.await(l.id, ares.Succeeded)
	}
	stop()
	if check.most < limit {
		t.Errorf("the jobs used at most %d devices of %d", check.most, limit)
	}
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

// forger is a stream of the hub that repeats each loan as one of an earlier incarnation, with a later version and more devices.
type forger struct{ grpc.ServerStream }

func (s *forger) SendMsg(m any) error {
	if sent, is := m.(*apipb.HubMessage); is && sent.GetLoan() != nil {
		late := proto.CloneOf(sent)
		late.GetLoan().Incarnation += "-"
		late.GetLoan().Version += 1000
		late.GetLoan().Gpus = 100
		if err := s.ServerStream.SendMsg(late); err != nil {
			return err
		}
	}
	return s.ServerStream.SendMsg(m)
}

// TestLoanOfAnotherIncarnation sends a member loans that were told to another incarnation. It must take none of them.
func TestLoanOfAnotherIncarnation(t *testing.T) {
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &forger{stream})
		}))
	})
	h.limit(3)
	a := newMember(t, h, "a")
	close(a.gate)
	h.federate(a)
	loan := func() *ares.Loan {
		if tenant := a.view.Tenant(h.tenant.ID); tenant != nil {
			return tenant.Loan
		}
		return nil
	}
	controltest.Await(t, a.view, "the first loan", func() bool { return loan() != nil })
	if got := loan(); got.GPUs > 3 {
		t.Fatalf("the loan is %+v", got)
	}
	h.await(h.submit(gpus(3)), ares.Succeeded)
	if got := loan(); got.GPUs > 3 {
		t.Errorf("the loan is %+v", got)
	}
}

// noSummaries is a stream of the hub that loses the summaries of members while the switch is on.
type noSummaries struct {
	grpc.ServerStream

	on *atomic.Bool
}

func (s *noSummaries) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		if got, is := m.(*apipb.MemberMessage); !is || got.GetSummary() == nil || !s.on.Load() {
			return nil
		}
	}
}

// TestUnreportedUse asks a cluster for its loan that uses most of it without the hub's knowledge. The hub must not lend what is in
// use.
func TestUnreportedUse(t *testing.T) {
	var lost atomic.Bool
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noSummaries{stream, &lost})
		}))
	})
	h.limit(8)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.awaitKnown("b")
	h.federate(a)
	h.awaitLoan(a, 8)
	lost.Store(true)
	running := a.submitHere(h, gpus(6))
	a.await(running, ares.Running)
	large := h.submit(gpus(8), inB)
	placed := func(id ares.JobID) bool { e := b.view.Job(id); return e != nil && e.Run.Placed > 0 }
	asked := func() bool { l := h.loanOf(a); return l.Limit == 0 && l.GPUs == 6 }
	controltest.Await(t, b.view, "the answer of a", func() bool { return placed(large) || asked() })
	if placed(large) {
		t.Fatalf("6 of 8 devices are in use in one cluster, and a job of 8 was started in the other one: %+v, %+v", h.loanOf(a), h.loanOf(b))
	}
	small := h.submit(gpus(2), inB)
	lost.Store(false)
	a.wire.set(true) // a new session begins with a summary
	a.wire.set(false)
	controltest.Await(t, b.view, "the small job to be placed", func() bool { return placed(small) })
	close(a.gate)
	close(b.gate)
	h.await(large, ares.Succeeded)
}

// noAnswers is a stream of the hub that loses the answers of cluster b about loans.
type noAnswers struct {
	grpc.ServerStream

	cluster string
}

func (s *noAnswers) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		got, is := m.(*apipb.MemberMessage)
		if is && got.GetHello() != nil {
			s.cluster = got.GetHello().GetCluster()
		}
		if !is || got.GetLoan() == nil || s.cluster != "b" {
			return nil
		}
	}
}

// TestClusterDoesNotAnswer lets a cluster say nothing about its loans. The jobs of the other cluster must start all the same.
func TestClusterDoesNotAnswer(t *testing.T) {
	h := newHub(t, func(h *hub) {
		h.options = append(h.options, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return handler(srv, &noAnswers{ServerStream: stream})
		}))
	})
	h.limit(8)
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	defer explainLoans(h, a, b)
	h.federate(b)
	controltest.Await(t, h.view, "the question to b", func() bool { return h.loanOf(b).Fresh })
	close(a.gate)
	h.await(h.submit(gpus(8), inA), ares.Succeeded)
	if l := h.loanOf(b); !l.Fresh || l.GPUs > 0 {
		t.Errorf("b has the loan %+v without an answer", l)
	}
}
