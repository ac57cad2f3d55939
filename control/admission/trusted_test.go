package admission

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestTrusted checks that a job is trusted only if a platform administrator submits it, and that a retry is trusted only if the retried job
// was. An administrator who retries a tenant's job did not write its command.
func TestTrusted(t *testing.T) {
	d := newAdmission(t)
	admin := &ares.Identity{Name: "token:admin", Bindings: []ares.Binding{{Role: ares.PlatformAdmin}}}
	lead := &ares.Identity{Name: "token:lead", Bindings: []ares.Binding{{Role: ares.TenantAdmin, Tenant: ares.DefaultTenant}, {Role: ares.PlatformAdmin, Tenant: "x"}}}
	if !admin.IsPlatformAdmin() || lead.IsPlatformAdmin() {
		t.Fatal(admin.IsPlatformAdmin(), lead.IsPlatformAdmin())
	}
	for _, by := range []*ares.Identity{admin, lead} {
		for _, s := range []ares.Spec{spec(), spec(func(s *ares.Spec) { s.Array.Count = 2 })} {
			out := d.Submit(t.Context(), Request{Submitted: s, Owner: by.Name, Trusted: by.IsPlatformAdmin()})[0]
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			j := storetest.Get(t, d.Store, out.ID).Job
			if j.Trusted != (by == admin) || j.Element(0).Trusted != j.Trusted {
				t.Errorf("of %s: trusted %v, its element %v", by.Name, j.Trusted, j.Element(0).Trusted)
			}
			draft, err := d.Draft(t.Context(), Request{Submitted: s, Owner: by.Name, Trusted: by.IsPlatformAdmin()})
			if err != nil || draft.Trusted != j.Trusted {
				t.Errorf("a draft of %s: %+v, %v", by.Name, draft, err)
			}
			if _, err := d.Cancel(t.Context(), j.ID, "me"); err != nil {
				t.Fatal(err)
			}
			d.caughtUp(t)
			for _, again := range []*ares.Identity{admin, lead} {
				got, err := d.Retry(t.Context(), j.ID, Request{Owner: again.Name, Trusted: again.IsPlatformAdmin()})
				if err != nil {
					t.Fatal(err)
				}
				if r := storetest.Get(t, d.Store, got.ID).Job; r.Trusted != (by == admin && again == admin) {
					t.Errorf("of %s, retried by %s: trusted %v", by.Name, again.Name, r.Trusted)
				}
			}
		}
	}
}

// TestNetworkNoneNodes checks that a job that must not reach the network is rejected if no node can keep it from there, and that the job is
// never split into members, which could not reach each other.
func TestNetworkNoneNodes(t *testing.T) {
	d := admissionWithNodes(t, 0)
	n := d.View.Node("node-0").Node
	alone := func() *ares.Spec {
		return &ares.Spec{GPUs: 1, Constraints: &ares.Placement{Network: ares.NetworkNone}}
	}
	for range 2 { // the second answer comes from the cache
		if err := d.Feasibility.checkCapacity(&ares.Spec{GPUs: 1}, true); err != nil {
			t.Errorf("another job: %v", err)
		}
		wantCode(t, d.Feasibility.checkCapacity(alone(), true), ares.Infeasible, "cannot keep a job from the network", "run it as root")
	}
	n.OwnNetwork = true
	d.View.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Node: &n}}})
	if err := d.Feasibility.checkCapacity(alone(), true); err != nil {
		t.Errorf("once the node can: %v", err)
	}
	big := alone()
	big.GPUs, big.Gang = 2*len(n.Devices), new(true)
	for id := 1; id < 3; id++ {
		more := n
		more.ID = fmt.Sprintf("node-%d", id)
		d.View.Apply(ares.Batch{Revision: int64(2 + id), Events: []ares.Event{{Revision: int64(2 + id), Node: &more}}})
	}
	wantCode(t, d.Feasibility.checkCapacity(big, true), ares.Infeasible)
	big.Constraints.Network = ""
	if err := d.Feasibility.checkCapacity(big, true); err != nil || big.Members != 2 {
		t.Errorf("with the network, it is split: %d members, %v", big.Members, err)
	}
}

// TestTrustedOnlyNodes checks that a job of a user is rejected if only nodes without isolation could run it, and that the error says what to
// do.
func TestTrustedOnlyNodes(t *testing.T) {
	d := admissionWithNodes(t, 0)
	closed := *d.View.Node("node-0")
	n := closed.Node
	n.TrustedOnly = true
	d.View.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Node: &n}}})
	for range 2 { // the second answer comes from the cache
		err := d.Feasibility.checkCapacity(&ares.Spec{GPUs: 1}, false)
		wantCode(t, err, ares.Infeasible, "platform administrators", "run its agent as root", "isolation.allow_untrusted")
		if err := d.Feasibility.checkCapacity(&ares.Spec{GPUs: 1}, true); err != nil {
			t.Errorf("an administrator's job: %v", err)
		}
	}
	n.TrustedOnly = false
	d.View.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Node: &n}}})
	if err := d.Feasibility.checkCapacity(&ares.Spec{GPUs: 1}, false); err != nil {
		t.Errorf("once the node isolates jobs: %v", err)
	}
}
