package roles

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

func TestRolesContain(t *testing.T) {
	for _, c := range []struct{ more, less ares.Role }{
		{ares.PlatformAdmin, ares.TenantAdmin},
		{ares.TenantAdmin, ares.Submitter},
		{ares.Submitter, ares.Viewer},
		{ares.Auditor, ares.Viewer},
		{ares.PlatformAdmin, ares.Auditor},
	} {
		for _, v := range verbs[c.less] {
			if !Has(c.more, v) {
				t.Errorf("%s has %s and %s has not", c.less, v, c.more)
			}
		}
	}
	for _, v := range Verbs() {
		if Has(ares.PlatformAdmin, v) == (v == AgentAct || v == MemberAct) {
			t.Errorf("platform-admin and %s", v)
		}
		if Has(ares.AgentRole, v) != (v == AgentAct) {
			t.Errorf("agent and %s", v)
		}
		if Has("root", v) || Has("", v) {
			t.Errorf("a role that is none has %s", v)
		}
	}
	for _, v := range []Verb{JobSubmit, JobCancel, QueueWrite, TokenWrite, BindingWrite, PolicyWrite, TenantWrite, NodeWrite, TopologyWrite, ReservationWrite, PriceWrite} {
		if Has(ares.Viewer, v) || Has(ares.Auditor, v) {
			t.Errorf("who only reads has %s", v)
		}
	}
}

func TestAllows(t *testing.T) {
	id := func(bs ...ares.Binding) *ares.Identity { return &ares.Identity{Bindings: bs} }
	bob := id(ares.Binding{Role: ares.Submitter, Tenant: "a"}, ares.Binding{Role: ares.Viewer, Tenant: "b", Queue: "q"})
	root := id(ares.Binding{Role: ares.PlatformAdmin})
	for _, c := range []struct {
		who           *ares.Identity
		v             Verb
		tenant, queue string
		want          bool
	}{
		{bob, JobSubmit, "a", "q", true},
		{bob, JobSubmit, "a", "", true},
		{bob, JobSubmit, "b", "q", false},
		{bob, JobRead, "b", "q", true},
		{bob, JobRead, "b", "r", false},
		{bob, JobRead, "b", "", false},
		{bob, JobRead, "b", Any, true},
		{bob, JobRead, "c", Any, false},
		{bob, JobRead, Any, Any, true},
		{bob, JobRead, "", "", false},
		{bob, JobRead, "A", "q", false},
		{bob, NodeWrite, Any, Any, false},
		{bob, "", "a", "", false},
		{bob, "job.*", "a", "", false},
		{root, NodeWrite, "", "", true},
		{root, JobRead, "c", "q", true},
		{root, AgentAct, "", "", false},
		{id(), JobRead, Any, Any, false},
		{id(ares.Binding{Role: ares.Auditor, Tenant: "a"}), ServerRead, "", "", false},
		{id(ares.Binding{Role: ares.Auditor, Tenant: "a"}), AuditRead, "a", "", true},
	} {
		if got := Allows(c.who, c.v, c.tenant, c.queue); got != c.want {
			t.Errorf("%v may %s in %q/%q: %v", c.who.Bindings, c.v, c.tenant, c.queue, got)
		}
	}
	if names, all := Tenants(bob, JobRead); all || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("tenants %v %v", names, all)
	}
	if _, all := Tenants(root, JobRead); !all {
		t.Error("an administrator reads not everywhere")
	}
}

func drawBinding(t *rapid.T) ares.Binding {
	b := ares.Binding{Role: rapid.SampledFrom(ares.Roles()).Draw(t, "role"), Tenant: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant")}
	if b.Tenant != "" {
		b.Queue = rapid.SampledFrom([]string{"", "q", "r"}).Draw(t, "queue")
	}
	return b
}

// TestNobodyGrantsMore checks that a grant never gives a permission that the granter does not have in the same scope.
// The agents' methods are an exception.
func TestNobodyGrantsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		granter := &ares.Identity{Bindings: rapid.SliceOfN(rapid.Custom(drawBinding), 0, 3).Draw(t, "granter")}
		b := drawBinding(t)
		if !MayGrant(granter, b) {
			return
		}
		given := &ares.Identity{Bindings: []ares.Binding{b}}
		for _, v := range Verbs() {
			if v == AgentAct {
				if Allows(given, v, "", "") && !Allows(granter, NodeWrite, "", "") {
					t.Fatalf("%v appointed an agent", granter.Bindings)
				}
				continue
			}
			for _, tenant := range []string{"", "a", "b", "c"} {
				for _, queue := range []string{"", "q", "r"} {
					if Allows(given, v, tenant, queue) && !Allows(granter, v, tenant, queue) {
						t.Fatalf("%v granted %v: %s in %q/%q", granter.Bindings, b, v, tenant, queue)
					}
				}
			}
		}
	})
}

func TestMayGrant(t *testing.T) {
	lead := &ares.Identity{Bindings: []ares.Binding{{Role: ares.TenantAdmin, Tenant: "a"}}}
	root := &ares.Identity{Bindings: []ares.Binding{{Role: ares.PlatformAdmin}}}
	for _, r := range ares.Roles() {
		if !MayGrant(root, ares.Binding{Role: r}) {
			t.Errorf("platform-admin may not make a %s", r)
		}
		want := r != ares.PlatformAdmin && r != ares.AgentRole && r != ares.Auditor
		if got := MayGrant(lead, ares.Binding{Role: r, Tenant: "a"}); got != want {
			t.Errorf("tenant-admin makes a %s in its tenant: %v", r, got)
		}
		if MayGrant(lead, ares.Binding{Role: r}) || MayGrant(lead, ares.Binding{Role: r, Tenant: "b"}) {
			t.Errorf("tenant-admin makes a %s elsewhere", r)
		}
	}
	if !MayGrant(lead, ares.Binding{Role: ares.Submitter, Tenant: "a", Queue: "q"}) {
		t.Error("tenant-admin binds nobody to a queue")
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		b  ares.Binding
		ok bool
	}{
		{ares.Binding{Role: ares.Viewer}, true},
		{ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"}, true},
		{ares.Binding{Role: ares.PlatformAdmin}, true},
		{ares.Binding{Role: ares.PlatformAdmin, Tenant: "a"}, false},
		{ares.Binding{Role: ares.AgentRole, Tenant: "a"}, false},
		{ares.Binding{Role: "admin"}, false},
		{ares.Binding{}, false},
		{ares.Binding{Role: ares.Viewer, Queue: "q"}, false},
		{ares.Binding{Role: ares.Viewer, Tenant: "*"}, false},
		{ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "../q"}, false},
	} {
		var p ares.Problems
		Check(&p, "", c.b)
		if (len(p) == 0) != c.ok {
			t.Errorf("%+v: %v", c.b, p)
		}
	}
}
