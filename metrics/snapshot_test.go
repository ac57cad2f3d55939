package metrics

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// The function `machine` returns the events of a node with four devices in the given rack, and of the node's session.
func machine(id, rack, model string) []ares.Event {
	n := &ares.Node{ID: id, Labels: map[string]string{"rack": rack, "spine": "s"}}
	for i := range 4 {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(id, "-", i), Index: i, Model: model, Healthy: true})
	}
	return []ares.Event{{Node: n}, {Session: &ares.Session{Node: id}}}
}

// The function `holding` returns the events of a job that holds the given devices of a node.
func holding(t *testing.T, id ares.JobID, node string, milli int, devices ...int) []ares.Event {
	t.Helper()
	seat := ares.Seat{Node: node, NUMA: -1}
	for _, d := range devices {
		seat.Shares = append(seat.Shares, ares.Share{Device: fmt.Sprint(node, "-", d), Milli: milli})
	}
	run := ares.NewRun(noon)
	if err := run.Place([]ares.Seat{seat}, 0, noon); err != nil {
		t.Fatal(err)
	}
	return []ares.Event{submitted(id), {Run: &ares.RunEvent{Job: id, Run: run}}}
}

func TestDomainsModelsAndNodes(t *testing.T) {
	w := newWatched(t)
	if got := w.values("topology_domain"); len(got) != 0 {
		t.Errorf("without nodes: %v", got)
	}
	sick, cordoned := machine("n3", "r2", "A100"), append(machine("n4", "r2", "A100"), ares.Event{Cordon: &ares.Cordon{Node: "n4"}})
	sick[0].Node.Devices[3].Healthy = false
	unfit := machine("n5", "r2", "A100")
	unfit[0].Node.Unfit = "its disk is full"
	w.apply(true, slices.Concat(
		machine("n1", "r1", "H100"), machine("n2", "r1", "H100"), sick, cordoned, unfit,
		holding(t, "half", "n1", 500, 0), holding(t, "third", "n1", 300, 0), holding(t, "two", "n3", 1000, 0, 1),
	)...)
	w.registry.MustRegister(NewUtilization(func() Snapshot { return Measure(w.state) }))
	for prefix, want := range map[string]map[string]string{
		"topology_domain_utilization_ratio": {" fleet fleet": "0.140", " s spine": "0.140", " r1 leaf": "0.100", " r2 leaf": "0.167"}, // 2.8 of 20
		// Free are 3.2 on n1, 4 on n2 and 1 on n3; only n2 is unused. Nothing can be placed on n4 and n5.
		"topology_scheduler_domain_fragmentation_ratio": {" fleet fleet": "0.512", " s spine": "0.512", " r1 leaf": "0.444", " r2 leaf": "1.000"},
		"topology_gpu_allocation_ratio":                 {" H100": "0.100", " A100": "0.167"},
		"ares_gpu_allocation_ratio":                     {" n1": "0.200", " n2": "0.000", " n3": "0.500", " n4": "0.000", " n5": "0.000"},
		"gpu_scheduler_gpu_utilization":                 {" n1": "0.200", " n2": "0.000", " n3": "0.500", " n4": "0.000", " n5": "0.000"},
	} {
		if got := w.values(prefix); !maps.Equal(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", prefix, got, want)
		}
	}

	// A node without a session has no value, although its jobs keep its devices until their ends are certain.
	w.apply(false, ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: "n3"}})
	got := w.values("ares_gpu_allocation_ratio")
	if _, shown := got[" n3"]; shown || w.values("topology_gpu_allocation_ratio")[" A100"] != "0.000" {
		t.Errorf("after node n3 was lost: %v", got)
	}
}

// TestSlicesCountInsteadOfTheirCard checks a card with two MIG slices, beside a whole card.
func TestSlicesCountInsteadOfTheirCard(t *testing.T) {
	w := newWatched(t)
	node := machine("n", "r", "A100")
	node[0].Node.Devices = []ares.Device{
		{ID: "n-0", Index: 0, Model: "A100", Healthy: true},
		{ID: "n-1", Index: 1, Model: "A100", Healthy: true, Parent: "n-0", Profile: "3g.40gb"},
		{ID: "n-2", Index: 2, Model: "A100", Healthy: true, Parent: "n-0", Profile: "3g.40gb"},
		{ID: "n-3", Index: 3, Model: "A100", Healthy: true},
	}
	w.apply(true, append(node, holding(t, "slice", "n", 1000, 1)...)...)
	if got := Measure(w.state).Nodes["n"]; got != (Capacity{All: 3000, Taken: 1000, Free: 2000}) {
		t.Errorf("the node has %+v", got)
	}
}
