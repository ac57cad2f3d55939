package admission

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store/storetest"
)

// admissionWithNodes returns an Admission that knows one node with four GPUs and several with
// eight.
func admissionWithNodes(t *testing.T, eights int) *Admission {
	t.Helper()
	v := cache.NewView(func() time.Time { return storetest.Noon })
	d := &Admission{View: v, Feasibility: NewFeasibility(v, v.Revision)}
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

// TestInfeasibleJobs checks that a job is rejected only if no node could ever run it. Nodes that are now lost,
// cordoned, full or unhealthy may become usable again, so they count.
func TestInfeasibleJobs(t *testing.T) {
	d := admissionWithNodes(t, 3)
	for _, c := range []struct {
		name string
		spec ares.Spec
		want string // "" if the job is accepted
	}{
		{"a whole node", ares.Spec{GPUs: 8}, ""},
		{"an image, although no node can run images yet", ares.Spec{GPUs: 8, Image: "pytorch"}, ""},
		{"root in an image, although no node can do this yet", ares.Spec{GPUs: 8, Image: "pytorch", Constraints: &ares.Placement{ContainerRoot: true}}, ""},
		{"more than a node", ares.Spec{GPUs: 9}, "4 of 4 nodes: too small even when empty"},
		{"another model", ares.Spec{GPUs: 1, GPUModel: "B200"}, "4 of 4 nodes: no GPU of model B200"},
		{"too much memory", ares.Spec{MemoryMB: 1 << 20}, "4 of 4 nodes: too small"},
		{"the whole cluster", ares.Spec{GPUs: 4, Members: 7}, ""},
		{"more than the cluster", ares.Spec{GPUs: 4, Members: 8}, "7 of 8 members fit"},
		{"elastic, enough for its minimum", ares.Spec{GPUs: 4, Members: 8, MinMembers: 7}, ""},
		{"not a gang", ares.Spec{GPUs: 4, Members: 8, Gang: new(false)}, ""},
		{"on one node", ares.Spec{GPUs: 4, Members: 3, Constraints: &ares.Placement{RequiredLevel: "node"}}, "2 of 3 members fit in one node at most (node-0)"},
		{"an array of what fits", ares.Spec{GPUs: 8, Array: ares.Array{Count: 1000}}, ""},
		{"with a dependency and affinity", ares.Spec{GPUs: 8, After: []string{"x"}, Constraints: &ares.Placement{Affinity: []string{"app=db"}}}, ""},
		{"of an unknown tenant", ares.Spec{GPUs: 8, Tenant: "vision"}, ""},
	} {
		said := c.spec
		err := d.Feasibility.checkCapacity(&said, false)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		for range 2 { // the second answer comes from the cache
			if ares.CodeOf(err) != ares.Infeasible || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "never") {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			err = d.Feasibility.checkCapacity(&said, false)
		}
	}
	// The job becomes feasible when a larger node is added, and infeasible again when that node is
	// removed.
	big := ares.Node{ID: "node-9", CPUs: 64, MemoryMB: 512_000}
	for k := range 16 {
		big.Devices = append(big.Devices, ares.Device{ID: fmt.Sprint("9/", k), Index: k, Type: "gpu"})
	}
	said := ares.Spec{GPUs: 9}
	d.View.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Node: &big}}})
	if err := d.Feasibility.checkCapacity(&said, false); err != nil {
		t.Error(err)
	}
	d.View.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Gone: ares.Gone{Kind: ares.KindNode, ID: "node-9"}}}})
	if err := d.Feasibility.checkCapacity(&said, false); err == nil {
		t.Error("accepted for a node that is gone")
	}
}

// TestSplit checks that a gang too large for one node is split into as few equal members as possible.
func TestSplit(t *testing.T) {
	d := admissionWithNodes(t, 3)
	for _, c := range []struct {
		gpus, members, each int
	}{{8, 0, 8}, {12, 2, 6}, {16, 2, 8}, {20, 5, 4}, {24, 3, 8}, {15, 3, 5}, {28, 7, 4}, {17, 17, 1}, {29, -1, 0}, {32, -1, 0}} {
		said := ares.Spec{GPUs: c.gpus, CPUs: 10, MemoryMB: 1000, GPUMemoryMB: 100, Gang: new(true)}
		err := d.Feasibility.checkCapacity(&said, false)
		switch {
		case c.members < 0:
			if ares.CodeOf(err) != ares.Infeasible || !strings.Contains(err.Error(), "not even if it is split into equal members") {
				t.Errorf("%d GPUs: %v", c.gpus, err)
			}
		case err != nil || said.Members != c.members || said.GPUs != c.each:
			t.Errorf("%d GPUs: %d members of %d, %v", c.gpus, said.Members, said.GPUs, err)
		case c.members > 0 && (said.CPUs*c.members < 10 || said.MemoryMB*c.members < 1000 || said.GPUMemoryMB*c.members < 100 || (said.MemoryMB-1)*c.members >= 1000):
			t.Errorf("%d GPUs: the rest became %+v", c.gpus, said)
		}
	}
	for _, said := range []ares.Spec{{GPUs: 16}, {GPUs: 16, Gang: new(false)}, {GPUs: 16, Members: 1, Gang: new(true)}} {
		if err := d.Feasibility.checkCapacity(&said, false); err == nil {
			t.Errorf("%+v was split though it did not ask to be", said)
		}
	}
}

// TestGangOverTwoModels checks that a gang is rejected if only devices of different models together are enough for it.
// The message says so, also if Ares would have to split the job. With allow_mixed_models the gang is accepted.
func TestGangOverTwoModels(t *testing.T) {
	v := cache.NewView(func() time.Time { return storetest.Noon })
	d := &Admission{View: v, Feasibility: NewFeasibility(v, v.Revision)}
	b := ares.Batch{Revision: 1, Reset: true}
	for _, model := range []string{"NVIDIA L40S", "NVIDIA H100 80GB HBM3"} {
		n := &ares.Node{ID: strings.ToLower(model[7:10]), CPUs: 64, MemoryMB: 512_000}
		for k := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(n.ID, "/", k), Index: k, Type: "gpu", Model: model, MemoryMB: 48_000})
		}
		b.Events = append(b.Events, ares.Event{Revision: 1, Node: n})
	}
	v.Apply(b)
	const want = "16 GPUs of one model are needed, but at most 8 of one model are free (NVIDIA H100 80GB HBM3 8, NVIDIA L40S 8); all members get the same model unless the job sets allow_mixed_models"
	for _, spec := range []ares.Spec{{GPUs: 8, Members: 2}, {GPUs: 16, Gang: new(true)}} {
		if err := d.Feasibility.checkCapacity(&spec, false); ares.CodeOf(err) != ares.Infeasible || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
		if spec.AllowMixedModels = true; d.Feasibility.checkCapacity(&spec, false) != nil {
			t.Errorf("%+v is rejected", spec)
		}
	}
	for _, spec := range []ares.Spec{{GPUs: 4, Members: 2}, {GPUs: 8, Members: 2, GPUModel: "h100|l40s"}, {GPUs: 8, Members: 2, MinMembers: 1}} {
		if err := d.Feasibility.checkCapacity(&spec, false); err != nil {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// TestNoNodesYet checks that a cluster without nodes accepts every job.
func TestNoNodesYet(t *testing.T) {
	v := cache.NewView(func() time.Time { return storetest.Noon })
	d := &Admission{View: v, Feasibility: NewFeasibility(v, v.Revision)}
	v.Apply(ares.Batch{Revision: 1, Reset: true})
	if err := d.Feasibility.checkCapacity(&ares.Spec{GPUs: 100}, false); err != nil {
		t.Error(err)
	}
}

// TestFeasibilityWaitsForAcknowledgedNodes checks that a job is not rejected because the view lags behind a node that this server
// has acknowledged.
func TestFeasibilityWaitsForAcknowledgedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := cache.NewView(func() time.Time { return storetest.Noon })
		acknowledged := int64(2)
		f := NewFeasibility(v, func() int64 { return acknowledged })
		small := ares.Node{ID: "small", CPUs: 1, MemoryMB: 1000}
		v.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{{Revision: 1, Node: &small}}})
		check := func(want ares.Code, change ares.Batch) {
			t.Helper()
			answer := make(chan error, 1)
			go func() { answer <- f.check(t.Context(), &ares.Spec{GPUs: 1}, false) }()
			synctest.Wait()
			v.Apply(change)
			if err := <-answer; ares.CodeOf(err) != want {
				t.Errorf("the answer is %v, want the code %q", err, want)
			}
		}
		check(ares.Infeasible, ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Node: &small}}})
		acknowledged = 3
		large := small
		large.Devices = []ares.Device{{ID: "gpu", Type: "gpu", MemoryMB: 80_000}}
		check("", ares.Batch{Revision: 3, Events: []ares.Event{{Revision: 3, Node: &large}}})
	})
}
