package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// fleetOf is a desk that knows so many nodes of eight GPUs and one of four.
func fleetOf(t *testing.T, eights int) *Desk {
	t.Helper()
	v := NewView(func() time.Time { return noon })
	d := &Desk{View: v, Fleet: NewFleet(v)}
	b := ares.Batch{Revision: 1, Reset: true}
	for i := range eights + 1 {
		n := &ares.Node{ID: fmt.Sprintf("node-%d", i), CPUs: 64, MemoryMB: 512_000}
		for k := range 8 {
			if i == eights && k >= 4 {
				break
			}
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(i, "/", k), Index: k, Type: "gpu", Model: "H100", MemoryMB: 80_000})
		}
		b.Events = append(b.Events, ares.Event{Revision: 1, Node: n}, ares.Event{Revision: 1, Cordon: &ares.Cordon{Node: n.ID}})
	}
	v.Apply(b)
	return d
}

// TestNever: nodes that are away, cordoned, full or unhealthy may come back; a
// job is refused only when even then it could not run.
func TestNever(t *testing.T) {
	d := fleetOf(t, 3)
	for _, c := range []struct {
		name string
		spec ares.Spec
		want string // "" when it is accepted
	}{
		{"a whole node", ares.Spec{GPUs: 8}, ""},
		{"more than a node", ares.Spec{GPUs: 9}, "4 of 4 nodes: too small even when empty"},
		{"another model", ares.Spec{GPUs: 1, GPUModel: "B200"}, "4 of 4 nodes: no GPU of model B200"},
		{"too much memory", ares.Spec{MemoryMB: 1 << 20}, "4 of 4 nodes: too small"},
		{"all there is", ares.Spec{GPUs: 4, Members: 7}, ""},
		{"more than there is", ares.Spec{GPUs: 4, Members: 8}, "7 of 8 members fit"},
		{"more, if need be", ares.Spec{GPUs: 4, Members: 8, MinMembers: 7}, ""},
		{"more, if it fits", ares.Spec{GPUs: 4, Members: 8, Gang: new(false)}, ""},
		{"on one node", ares.Spec{GPUs: 4, Members: 3, Placement: ares.Placement{RequiredLevel: "node"}}, "2 of 3 members fit in one node at most (node-0)"},
		{"an array of what fits", ares.Spec{GPUs: 8, Array: ares.Array{Count: 1000}}, ""},
		{"after somebody, near somebody", ares.Spec{GPUs: 8, After: []string{"x"}, Placement: ares.Placement{Affinity: []string{"app=db"}}}, ""},
		{"of a tenant nobody asks", ares.Spec{GPUs: 8, Tenant: "vision"}, ""},
	} {
		said := c.spec
		err := d.fit(&said)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		for range 2 { // the second answer is a remembered one
			if ares.CodeOf(err) != ares.Refused || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "never") {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			err = d.fit(&said)
		}
	}
	// A larger node comes: what could never run now can; it goes, and it cannot.
	big := ares.Node{ID: "node-9", CPUs: 64, MemoryMB: 512_000}
	for k := range 16 {
		big.Devices = append(big.Devices, ares.Device{ID: fmt.Sprint("9/", k), Index: k, Type: "gpu"})
	}
	said := ares.Spec{GPUs: 9}
	d.View.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Node: &big}}})
	if err := d.fit(&said); err != nil {
		t.Error(err)
	}
	d.View.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Gone: ares.Gone{Kind: ares.KindNode, ID: "node-9"}}}})
	if err := d.fit(&said); err == nil {
		t.Error("accepted for a node that is gone")
	}
}

// TestSplit: a gang too large for a node becomes equal members, as few as will
// do.
func TestSplit(t *testing.T) {
	d := fleetOf(t, 3)
	for _, c := range []struct {
		gpus, members, each int
	}{{8, 0, 8}, {12, 2, 6}, {16, 2, 8}, {20, 5, 4}, {24, 3, 8}, {15, 3, 5}, {28, 7, 4}, {17, 17, 1}, {29, -1, 0}, {32, -1, 0}} {
		said := ares.Spec{GPUs: c.gpus, CPUs: 10, MemoryMB: 1000, GPUMemoryMB: 100, Gang: new(true)}
		err := d.fit(&said)
		switch {
		case c.members < 0:
			if ares.CodeOf(err) != ares.Refused || !strings.Contains(err.Error(), "nor split into equal members") {
				t.Errorf("%d GPUs: %v", c.gpus, err)
			}
		case err != nil || said.Members != c.members || said.GPUs != c.each:
			t.Errorf("%d GPUs: %d members of %d, %v", c.gpus, said.Members, said.GPUs, err)
		case c.members > 0 && (said.CPUs*c.members < 10 || said.MemoryMB*c.members < 1000 || said.GPUMemoryMB*c.members < 100 || (said.MemoryMB-1)*c.members >= 1000):
			t.Errorf("%d GPUs: the rest became %+v", c.gpus, said)
		}
	}
	for _, said := range []ares.Spec{{GPUs: 16}, {GPUs: 16, Gang: new(false)}, {GPUs: 16, Members: 1, Gang: new(true)}} {
		if err := d.fit(&said); err == nil {
			t.Errorf("%+v was split though it did not ask to be", said)
		}
	}
}

// TestNoNodesYet: a cluster that is being built takes every job.
func TestNoNodesYet(t *testing.T) {
	v := NewView(func() time.Time { return noon })
	d := &Desk{View: v, Fleet: NewFleet(v)}
	v.Apply(ares.Batch{Revision: 1, Reset: true})
	if err := d.fit(&ares.Spec{GPUs: 100}); err != nil {
		t.Error(err)
	}
}
