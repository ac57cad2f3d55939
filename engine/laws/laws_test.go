package laws_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testCluster is a small cluster in which every law can be broken. The cluster has two leaves with two nodes each,
// and three tenants. One tenant has a quota and a limit, one runs a job with a label, and one has used up its
// budget.
func testCluster() *engine.State {
	s := engine.New()
	var events []ares.Event
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		n := &ares.Node{ID: id, CPUs: 16, MemoryMB: 1000, Labels: map[string]string{"leaf": "l" + fmt.Sprint(i/2), "region": "eu", "id": id}}
		n.NUMA = []ares.NUMANode{{ID: 0, CPUs: 8, MemoryMB: 500}, {ID: 1, CPUs: 8, MemoryMB: 500}}
		for k := range 4 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(id, k), Index: k, Type: "gpu", Model: "H100", MemoryMB: 1000, Healthy: true, NUMA: k / 2})
		}
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: id}})
	}
	hot := events[6].Node // d
	hot.Devices[0].Celsius, hot.Devices[1].Healthy, hot.Devices[2].Model = 90, false, "A100"
	events[8].Node.TrustedOnly = true // e
	hot.Taints = []ares.Taint{{Key: "spot", Effect: ares.NoSchedule}}
	limits := ares.NoLimits()
	limits.GPUs = 2
	events = append(events,
		ares.Event{Tenant: &ares.Tenant{ID: "default", Limits: ares.NoLimits()}},
		ares.Event{Tenant: &ares.Tenant{ID: "small", Limits: limits}},
		ares.Event{Tenant: &ares.Tenant{ID: "bound", Limits: ares.NoLimits(), Quotas: []ares.Quota{{Nominal: 1}}}},
		ares.Event{Tenant: &ares.Tenant{ID: "broke", Limits: ares.NoLimits(), GPUHours: 1}},
		ares.Event{Usage: &ares.Usage{Tenant: "broke", Queue: "default", At: epoch, Month: "2026-01", GPUSecs: 3600}},
		ares.Event{Topology: &ares.Topology{Domains: []ares.Domain{{Name: "l0", Level: ares.LevelLeaf, Switch: "10GbE"}}, MaxNodesPerLeaf: 2, MaxGPUsPerLeaf: 6}},
	)
	job := &ares.Job{Spec: ares.Spec{GPUs: 1, Labels: map[string]string{"app": "db"}}.WithDefaults(), ID: "db", AcceptedAt: epoch, Revision: 1}
	run := ares.NewRun(epoch)
	if err := run.Place([]ares.Seat{seat("a", 0, 0)}, 0, epoch); err != nil {
		panic(err)
	}
	events = append(events, ares.Event{Job: job}, ares.Event{Run: &ares.RunEvent{Job: "db", Run: run}})
	s.Apply(ares.Batch{Revision: 1, Events: events})
	return s
}

func seat(node string, rank int, devices ...int) ares.Seat {
	out := ares.Seat{Node: node, Rank: rank, NUMA: -1}
	for _, d := range devices {
		out.Shares = append(out.Shares, ares.Share{Device: fmt.Sprint(node, d), Index: d, Milli: 1000})
	}
	return out
}

func bindNUMA(s ares.Seat, numa int) ares.Seat {
	s.NUMA = numa
	return s
}

// TestViolationsAreFound checks that each violation is reported by exactly one law. It
// also checks that valid plans break no law.
func TestViolationsAreFound(t *testing.T) {
	gpu := func(change ...func(*ares.Spec)) ares.Spec {
		s := ares.Spec{GPUs: 1}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	for _, c := range []struct {
		name  string
		spec  ares.Spec
		seats []ares.Seat
		law   string // "" for none
	}{
		{"fine", gpu(), []ares.Seat{seat("a", 0, 1)}, ""},
		{"a device in use", gpu(), []ares.Seat{seat("a", 0, 0)}, "devices"},
		{"a hot device", gpu(func(s *ares.Spec) { s.EditPlacement().Tolerations = []string{"spot"} }), []ares.Seat{seat("d", 0, 0)}, "devices"},
		{"a sick device", gpu(func(s *ares.Spec) { s.EditPlacement().Tolerations = []string{"*"} }), []ares.Seat{seat("d", 0, 1)}, "devices"},
		{"another model", gpu(func(s *ares.Spec) { s.GPUModel, s.EditPlacement().Tolerations = "h100", []string{"spot"} }), []ares.Seat{seat("d", 0, 2)}, "devices"},
		{"too little memory", gpu(func(s *ares.Spec) { s.GPUMemoryMB = 1001 }), []ares.Seat{seat("b", 0, 0)}, "devices"},
		{"a slice", ares.Spec{MIGProfile: "1g.10gb"}, []ares.Seat{seat("b", 0, 0)}, "devices"},
		{"too few devices", ares.Spec{GPUs: 2}, []ares.Seat{seat("b", 0, 0)}, "devices"},
		{"a node nobody knows", gpu(), []ares.Seat{seat("x", 0, 0)}, "devices"},
		{"bound to nothing", gpu(func(s *ares.Spec) { s.NUMAPolicy = "required" }), []ares.Seat{seat("b", 0, 0)}, "devices"},
		{"bound to the other side", gpu(func(s *ares.Spec) { s.NUMAPolicy = "required" }), []ares.Seat{bindNUMA(seat("b", 0, 0), 1)}, "devices"},
		{"bound right", gpu(func(s *ares.Spec) { s.NUMAPolicy = "required" }), []ares.Seat{bindNUMA(seat("b", 0, 0), 0)}, ""},
		{"half a gang", ares.Spec{GPUs: 1, Members: 2}, []ares.Seat{seat("b", 0, 0)}, "gangs"},
		{"enough of an elastic gang", ares.Spec{GPUs: 1, Members: 2, MinMembers: 1}, []ares.Seat{seat("b", 0, 0)}, ""},
		{"a rank twice", ares.Spec{GPUs: 1, Members: 2}, []ares.Seat{seat("b", 0, 0), seat("b", 0, 1)}, "gangs"},
		{"before its dependency", gpu(func(s *ares.Spec) { s.After = []string{"db"} }), []ares.Seat{seat("b", 0, 0)}, "gangs"},
		{"a taint", gpu(), []ares.Seat{seat("d", 0, 2)}, "nodes"},
		{"a node for administrators' jobs", gpu(), []ares.Seat{seat("e", 0, 0)}, "nodes"},
		{"another label", gpu(func(s *ares.Spec) { s.EditPlacement().NodeSelector = map[string]string{"id": "c"} }), []ares.Seat{seat("b", 0, 0)}, "nodes"},
		{"a condition", gpu(func(s *ares.Spec) { s.EditPlacement().NodeAffinity = []string{"id notin (b)"} }), []ares.Seat{seat("b", 0, 0)}, "nodes"},
		{"another region", gpu(func(s *ares.Spec) { s.EditPlacement().Regions = []string{"us"} }), []ares.Seat{seat("b", 0, 0)}, "nodes"},
		{"two leaves", gangSpec("leaf", ""), []ares.Seat{seat("b", 0, 0), seat("c", 1, 0)}, "places"},
		{"one leaf", gangSpec("leaf", ""), []ares.Seat{seat("a", 0, 1), seat("b", 1, 0)}, ""},
		{"one region", gangSpec("region", ""), []ares.Seat{seat("b", 0, 0), seat("c", 1, 0)}, ""},
		{"a slow switch", gangSpec("", "40Gb"), []ares.Seat{seat("a", 0, 1), seat("b", 1, 0)}, "places"},
		{"an unknown switch", gangSpec("", "10Gb"), []ares.Seat{seat("b", 0, 0), seat("c", 1, 0)}, "places"},
		{"fast enough", gangSpec("", "10Gb"), []ares.Seat{seat("a", 0, 1), seat("b", 1, 0)}, ""},
		{"too much of a leaf", ares.Spec{GPUs: 4, Members: 2}, []ares.Seat{seat("b", 0, 0, 1, 2, 3), seat("b", 1, 0, 1, 2, 3)}, "places"},
		{"not near", affinitySpec([]string{"app=db"}, nil), []ares.Seat{seat("b", 0, 0)}, "company"},
		{"near", affinitySpec([]string{"app=db @leaf"}, nil), []ares.Seat{seat("b", 0, 0)}, ""},
		{"not apart", affinitySpec(nil, []string{"app=db @leaf"}), []ares.Seat{seat("b", 0, 0)}, "company"},
		{"apart", affinitySpec(nil, []string{"app=db"}), []ares.Seat{seat("b", 0, 0)}, ""},
		{"over a limit", ares.Spec{Tenant: "small", GPUs: 3}, []ares.Seat{seat("b", 0, 0, 1, 2)}, "limits"},
		{"over a quota", ares.Spec{Tenant: "bound", GPUs: 2}, []ares.Seat{seat("b", 0, 0, 1)}, "quotas"},
		{"over the budget", ares.Spec{Tenant: "broke", GPUs: 1}, []ares.Seat{seat("b", 0, 0)}, "budgets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testCluster()
			s.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Job: &ares.Job{Spec: c.spec.WithDefaults(), ID: "j", AcceptedAt: epoch, Revision: 2}}}})
			plan := &ares.Plan{Revision: 2, Now: epoch, Place: []ares.Placing{{Job: "j", Seats: c.seats}}}
			expectViolation(t, laws.Check(s, plan), c.law)
		})
	}
}

// TestEmptyPlanMustNotWakeAtOnce checks that a plan without changes does not request an immediate decision. The
// next decision would be the same.
func TestEmptyPlanMustNotWakeAtOnce(t *testing.T) {
	s := testCluster()
	expectViolation(t, laws.Check(s, &ares.Plan{Revision: 1, Now: epoch, Wake: epoch}), "form")
	expectViolation(t, laws.Check(s, &ares.Plan{Revision: 1, Now: epoch, Wake: epoch.Add(1)}), "")
}

func gangSpec(level, bandwidth string) ares.Spec {
	return ares.Spec{GPUs: 1, Members: 2, Constraints: &ares.Placement{RequiredLevel: level, NetworkBandwidth: bandwidth}}
}

func affinitySpec(near, apart []string) ares.Spec {
	return ares.Spec{GPUs: 1, Constraints: &ares.Placement{Affinity: near, AntiAffinity: apart}}
}

func expectViolation(t *testing.T, broken []laws.Violation, law string) {
	t.Helper()
	var names []string
	for _, v := range broken {
		names = append(names, v.Law)
	}
	if law == "" && len(broken) > 0 || law != "" && !slices.Contains(names, law) {
		t.Errorf("broken are %v, want %q", broken, law)
	}
}

// TestOrderViolationsAreFound checks the order of placements by class, by share
// and by position in the queue.
func TestOrderViolationsAreFound(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second ares.Spec
		law           string
	}{
		{"a higher class waits", ares.Spec{Priority: new(500)}, ares.Spec{Priority: new(1000)}, "turns"},
		{"the higher class first", ares.Spec{Priority: new(1000)}, ares.Spec{Priority: new(500)}, ""},
		{"a poorer tenant waits", ares.Spec{}, ares.Spec{Tenant: "small"}, "turns"},
		{"the poorer tenant first", ares.Spec{Tenant: "small"}, ares.Spec{}, ""},
		{"a poorer tenant of a lower class", ares.Spec{Priority: new(1000)}, ares.Spec{Tenant: "small"}, ""},
		{"a poorer queue waits", ares.Spec{}, ares.Spec{Queue: "other"}, "turns"},
		{"a higher priority waits", ares.Spec{Priority: new(500)}, ares.Spec{Priority: new(501)}, "turns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testCluster()
			plan := &ares.Plan{Revision: 2, Now: epoch}
			b := ares.Batch{Revision: 2}
			for i, spec := range []ares.Spec{c.first, c.second} {
				spec.GPUs = 1
				id := ares.JobID(fmt.Sprint("j", i))
				b.Events = append(b.Events, ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: epoch, Revision: 2}})
				plan.Place = append(plan.Place, ares.Placing{Job: id, Seats: []ares.Seat{seat("b", 0, i)}})
			}
			s.Apply(b)
			expectViolation(t, laws.Check(s, plan), c.law)
		})
	}
}

// BenchmarkCheck measures the cost of scheduler.check_laws per decision.
func BenchmarkCheck(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		s := engine.New()
		batch := ares.Batch{Revision: 1, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "default", Limits: ares.NoLimits()}}}}
		for i := range size {
			n := &ares.Node{ID: fmt.Sprintf("n%05d", i), CPUs: 64, MemoryMB: 512_000}
			for k := range 8 {
				n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(n.ID, k), Index: k, Type: "gpu", Model: "H100", MemoryMB: 80_000, Healthy: true})
			}
			batch.Events = append(batch.Events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID}},
				ares.Event{Job: &ares.Job{Spec: ares.Spec{GPUs: 8}.WithDefaults(), ID: ares.JobID(fmt.Sprintf("j%05d", i)), AcceptedAt: epoch, Revision: 1}})
		}
		s.Apply(batch)
		plan := engine.Decide(s, epoch)
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			for b.Loop() {
				if broken := laws.Check(s, &plan); len(broken) > 0 {
					b.Fatal(broken)
				}
			}
		})
	}
}
