package federation_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation/grant"
)

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
