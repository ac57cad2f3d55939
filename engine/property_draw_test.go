package engine_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// The function `pick` draws one of a few values. By convention, callers list the usual value first.
func pick[T any](t *rapid.T, what string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, what)
}

// The function `once` returns true with a probability of 1 in n, where n is the argument
// `in`.
func once(t *rapid.T, in int, what string) bool { return rapid.IntRange(0, in-1).Draw(t, what) == in-1 }

// drawConfig draws a random configuration, which is mostly the default configuration.
func drawConfig(t *rapid.T) config.Config {
	cfg := config.Default()
	if once(t, 4, "configured") {
		cfg.ModelWeights = map[string]int{"h100": 2500, "NVIDIA A100": 1300}
		cfg.HalfLife, cfg.AgeingStep = pick(t, "half-life", time.Hour, 100*time.Hour), pick(t, "step", time.Second, time.Minute)
		cfg.ThermalLimit = pick(t, "limit", 0, 70)
	}
	if once(t, 3, "queueing") {
		q := &cfg.Queue
		q.Order = pick(t, "order", config.OrderAged, config.OrderFIFO, config.OrderShortest, config.OrderRemaining, config.OrderLeastService, config.OrderAttained, config.OrderExpectedWork)
		q.Blocked = pick(t, "blocked", config.BlockedSkip, config.BlockedHold, config.BlockedReserve)
		q.Preempt = q.Order != config.OrderAged && q.Order != config.OrderExpectedWork && q.Order != config.OrderFIFO && q.Blocked != config.BlockedReserve && rapid.Bool().Draw(t, "yield")
		if q.Order == config.OrderAttained {
			q.Attained = pick(t, "attained", 0, 1, 60)
		}
	}
	if cfg.Queue.Order == config.OrderExpectedWork {
		cfg.Queue.OverdueAfter, cfg.Queue.OverdueShare = pick(t, "overdue", 0, time.Minute, time.Hour), pick(t, "overdue share", 10, 50, 100)
		cfg.Backfill.MaxSpread = pick(t, "spread", 0, 200)
	}
	if once(t, 4, "another policy") {
		cfg.Placement, cfg.Seed = pick(t, "placement", config.PlacementPolicies()...), int64(pick(t, "seed", 0, 7))
		if rapid.Bool().Draw(t, "typical") {
			cfg.Typical = []config.TypicalJob{{GPUs: 2, CPUs: 3, Count: 2}, {Milli: 400, CPUs: 1, Model: "h100|a100", Count: 1}, {CPUs: 2, Count: 1}}
		}
	}
	return cfg
}

// drawNode draws a random small node. Some nodes have NUMA nodes, links, hot devices,
// slices, taints and location labels.
func drawNode(t *rapid.T, id string) ares.Node {
	n := ares.Node{ID: id, CPUs: rapid.IntRange(0, 16).Draw(t, "cpus"), CPUMilli: pick(t, "cpu milli", 0, 0, 500, 999), MemoryMB: pick(t, "memory", 1000, 1033, 640), Labels: map[string]string{}}
	for _, l := range [][]string{{"region", "eu", "us", ""}, {"zone", "", "z0", "z1"}, {"spine", "", "s0"}, {"leaf", "", "l0", "l1"}, {"gen", "", "3", "4"}} {
		if v := pick(t, l[0], l[1:]...); v != "" {
			n.Labels[l[0]] = v
		}
	}
	models := []string{"NVIDIA A100", "NVIDIA H100"}
	for i := range rapid.IntRange(0, 4).Draw(t, "gpus") {
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s%d", n.ID, i), Index: i, Type: "gpu", Model: pick(t, "model", models...),
			MemoryMB: 1000, Healthy: !once(t, 10, "sick"), NUMA: i / 2, Celsius: pick(t, "celsius", 0, 0, 40, 70, 75, 76),
		})
	}
	if k := len(n.Devices); k > 0 && once(t, 5, "sliced") {
		parent := n.Devices[k-1]
		for i := range 2 {
			n.Devices = append(n.Devices, ares.Device{
				ID: fmt.Sprintf("%s-mig%d", id, i), Index: parent.Index, Type: "gpu", Model: parent.Model, MemoryMB: 140, NUMA: parent.NUMA,
				Parent: parent.ID, Profile: "1g.10gb", Healthy: true,
			})
		}
	}
	if once(t, 2, "numa") {
		n.NUMA = []ares.NUMANode{{ID: 0, CPUs: n.CPUs / 2, MemoryMB: n.MemoryMB / 2}, {ID: 1, CPUs: n.CPUs - n.CPUs/2, MemoryMB: n.MemoryMB / 2}}
	}
	if once(t, 2, "linked") {
		n.Links = drawLinks(t, len(n.Devices))
	}
	switch rapid.IntRange(0, 5).Draw(t, "taint") {
	case 0:
		n.Taints = []ares.Taint{{Key: "spot", Effect: ares.NoSchedule}}
	case 1:
		n.Taints = []ares.Taint{{Key: "spot", Value: "old", Effect: ares.PreferNoSchedule}}
	}
	n.TrustedOnly = once(t, 12, "trusted only") // jobs of this test are not trusted, so the laws reject any plan that uses it
	if once(t, 12, "unfit") {
		n.Unfit = "no space left"
	}
	return n
}

func drawLinks(t *rapid.T, n int) [][]string {
	m := make([][]string, n)
	for i := range m {
		m[i] = make([]string, n)
		m[i][i] = "X"
	}
	for i := range m {
		for k := range i {
			m[i][k] = pick(t, "link", "NV4", "NV2", "PIX", "SYS")
			m[k][i] = m[i][k]
		}
	}
	return m
}

func drawTopology(t *rapid.T) *ares.Topology {
	out := &ares.Topology{
		Domains: []ares.Domain{
			{Name: "eu", Level: ares.LevelRegion, Switch: pick(t, "eu switch", "", "10GbE")},
			{Name: "s0", Level: ares.LevelSpine, Parent: "eu", Switch: "40GbE"},
			{Name: "l0", Level: ares.LevelLeaf, Parent: pick(t, "parent", "s0", ""), Switch: "100GbE", Adjacent: []string{"l1"}},
			{Name: "l1", Level: ares.LevelLeaf, Parent: "s0", Switch: pick(t, "l1 switch", "100GbE", "10GbE", "")},
			{Name: "l2", Level: ares.LevelLeaf, Switch: "slow", Adjacent: pick(t, "adjacent", nil, []string{"l0"})},
		},
		Switches:        []ares.Switch{{Name: "slow", Gbps: 1, LatencyNanos: 50_000}},
		MaxNodesPerLeaf: pick(t, "nodes per leaf", 0, 0, 1, 2), MaxGPUsPerLeaf: pick(t, "GPUs per leaf", 0, 0, 2, 4),
	}
	for _, id := range nodeIDs {
		if at := pick(t, "home of "+id, -1, 2, 3, 4); at >= 0 {
			out.Domains[at].Nodes = append(out.Domains[at].Nodes, id)
		}
	}
	if once(t, 3, "weights") {
		out.Weights = ares.Weights{Availability: 100, Alignment: 200, Utilization: 300, History: 400}
	}
	return out
}

func drawLimits(t *rapid.T) ares.Limits {
	l := ares.NoLimits()
	if once(t, 2, "limited") {
		l.GPUs, l.ConcurrentJobs = rapid.IntRange(0, 8).Draw(t, "gpus"), rapid.IntRange(0, 5).Draw(t, "jobs")
	}
	return l
}

func drawQuotas(t *rapid.T) []ares.Quota {
	var out []ares.Quota
	for _, model := range []string{"", "H100", "a100"} {
		if !once(t, 3, "quota "+model) {
			continue
		}
		out = append(out, ares.Quota{
			Model: model, Nominal: rapid.IntRange(0, 4).Draw(t, "nominal"),
			Borrow: pick(t, "borrow", ares.Unlimited, 0, 1, 2), Lend: pick(t, "lend", ares.Unlimited, 0, 1),
		})
	}
	return out
}

func drawWeight(t *rapid.T) float64 { return pick(t, "weight", 0, 1, 0.5, 3) }

func drawSpec(t *rapid.T) ares.Spec {
	s := ares.Spec{
		Tenant: pick(t, "tenant", "", "ml", "web", "nobody"), Queue: pick(t, "queue", "", "", "q1", "q2"), Members: pick(t, "members", 1, 1, 2, 3, 4),
		CPUs: pick(t, "cpus", 0, 0, 1, 4), CPUMilli: int32(pick(t, "cpu milli", 0, 0, 500, 1)), MemoryMB: pick(t, "memory", 0, 0, 100, 400),
		Priority: new(pick(t, "priority", 500, 0, 100, 700, 2000)), NUMAPolicy: pick(t, "numa", "", "", "preferred", "required"),
		Labels: pick(t, "labels", nil, map[string]string{"app": "db"}, map[string]string{"app": "web"}),
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		s.GPUMilli = pick(t, "milli", 1, 300, 500, 1000)
	case 1, 2, 3:
		s.GPUs = pick(t, "gpus", 1, 1, 2, 3)
		s.GPUModel = pick(t, "model", "", "h100", "h100|a100")
		s.GPUMemoryMB = pick(t, "gpu memory", 0, 1000, 2000)
	case 4:
		s.MIGProfile = "1g.10gb"
	}
	s.Checkpoint.Enabled, s.MaxRuntimeMinutes = rapid.Bool().Draw(t, "checkpoint"), pick(t, "minutes", 0, 0, 1, 600)
	s.MaxQueueMinutes = pick(t, "patience", 0, 0, 0, 1, 30)
	if once(t, 3, "elastic") {
		s.MinMembers = rapid.IntRange(1, s.Members).Draw(t, "least")
	}
	if once(t, 4, "array") {
		s.Array = ares.Array{Count: rapid.IntRange(1, 6).Draw(t, "count")}
		s.Array.Parallelism = rapid.IntRange(1, s.Array.Count).Draw(t, "parallelism")
	}
	if once(t, 2, "placed") {
		s.Constraints = drawPlacement(t)
	}
	return s
}

func drawPlacement(t *rapid.T) *ares.Placement {
	p := &ares.Placement{
		Strategy:       pick(t, "strategy", "", "consolidated", "distributed", "balanced"),
		RequiredLevel:  pick(t, "required", "", "", "node", "leaf", "rack", "spine", "zone", "region", "numa"),
		PreferredLevel: pick(t, "preferred", "", "node", "leaf", "zone"), PreferredDomain: pick(t, "domain", "", "l0", "l1", "eu", "nowhere"),
		NetworkBandwidth: pick(t, "bandwidth", "", "", "", "40Gb", "100Gb"), LatencySensitive: once(t, 5, "latency"),
	}
	if once(t, 5, "selector") {
		p.NodeSelector = map[string]string{"region": "eu"}
	}
	if once(t, 5, "regions") {
		p.Regions = []string{"us"}
	}
	if once(t, 3, "tolerates") {
		p.Tolerations = []string{pick(t, "toleration", "spot", "*", "spot=old:PreferNoSchedule")}
	}
	if once(t, 5, "condition") {
		p.NodeAffinity = []string{pick(t, "affinity", "gen in (3, 4)", "gen notin (3)", "gen", "!gen")}
	}
	if once(t, 5, "requirement") {
		p.NodeRequirements, _ = ares.ParseNodeRequirements(pick(t, "requires", "gen>=3", "!gen", "gen!=4", "gpu.memory>=60G", "gpu.count<=4", "gpu.model=h100"))
	}
	if once(t, 5, "wish") {
		p.PreferredNodeAffinity = []string{"gen=4"}
	}
	if once(t, 4, "spread") {
		p.PreferredAntiAffinity = []string{pick(t, "from", "app=db", "app=web @leaf", "app=web @zone")}
	}
	if once(t, 4, "near") {
		p.Affinity = []string{pick(t, "near", "app=db", "app=db @leaf", "app=web @region")}
	}
	if once(t, 4, "apart") {
		p.AntiAffinity = []string{pick(t, "apart", "app=db", "app=web @leaf", "app=db @zone")}
	}
	return p
}
