package api

import (
	"context"
	"fmt"
	"math"
	"strconv"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// topologyDoor is the TopologyService.
type topologyDoor struct {
	apipb.UnimplementedTopologyServiceServer
	*Doors
}

// maxWarnings bounds what is told of a topology; a count stands for the rest.
const maxWarnings = 50

// GetTopology implements apipb.TopologyServiceServer.
func (d *topologyDoor) GetTopology(ctx context.Context, _ *apipb.GetTopologyRequest) (*apipb.GetTopologyResponse, error) {
	t, err := d.cfg.Store.Topology(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.GetTopologyResponse{Topology: newTopology(&t)}, nil
}

// ApplyTopology implements apipb.TopologyServiceServer.
func (d *topologyDoor) ApplyTopology(ctx context.Context, req *apipb.ApplyTopologyRequest) (*apipb.ApplyTopologyResponse, error) {
	m := req.GetTopology()
	t := topologyOf(m)
	var p ares.Problems
	t.Weights = weightsOf(&p, m.GetWeights())
	if bad, ok := t.Check().(*ares.InvalidRequest); ok && len(p) == 0 { //nolint:errorlint // Check makes it itself
		p = bad.Problems
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	was, made, err := d.replace(ctx, t, m.GetRevision())
	if err != nil {
		return nil, err
	}
	changed(ctx, "", was, made)
	d.seen(ctx, made.Revision)
	return &apipb.ApplyTopologyResponse{Topology: newTopology(&made), Warnings: d.unknown(&made)}, nil
}

// replace writes a topology in place of the one at a revision, or of whichever
// is there.
func (d *topologyDoor) replace(ctx context.Context, t ares.Topology, revision string) (was, made ares.Topology, err error) {
	for try := 1; ; try++ {
		if was, err = d.cfg.Store.Topology(ctx); err != nil {
			return was, t, err
		}
		t.Revision = was.Revision
		if revision != "" {
			if t.Revision, err = revisionOf("revision", revision); err != nil {
				return was, t, err
			}
		}
		made, err = d.cfg.Store.PutTopology(ctx, t)
		if ares.CodeOf(err) != ares.Conflict || revision != "" || try == tenantTries {
			return was, made, err
		}
	}
}

// unknown lists what a topology names that is not known.
func (d *topologyDoor) unknown(t *ares.Topology) []string {
	var out []string
	more := 0
	for _, dom := range t.Domains {
		for _, n := range dom.Nodes {
			if d.cfg.View.Node(n) != nil {
				continue
			}
			if len(out) == maxWarnings {
				more++
				continue
			}
			out = append(out, fmt.Sprintf("node %s of %s %s has not registered", clip(n), dom.Level, dom.Name))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more nodes have not registered", more))
	}
	return out
}

func topologyOf(m *apipb.Topology) ares.Topology {
	t := ares.Topology{MaxNodesPerLeaf: int(m.GetMaxNodesPerLeaf()), MaxGPUsPerLeaf: int(m.GetMaxGpusPerLeaf())}
	for _, d := range m.GetDomains() {
		level := ares.Level(d.GetLevel())
		if level == "rack" {
			level = ares.LevelLeaf
		}
		t.Domains = append(t.Domains, ares.Domain{
			Name: d.GetName(), Level: level, Parent: d.GetParent(), Adjacent: d.GetAdjacent(), Switch: d.GetSwitch(), Nodes: d.GetNodes(),
		})
	}
	for _, s := range m.GetSwitches() {
		t.Switches = append(t.Switches, ares.Switch{Name: s.GetName(), Gbps: int(s.GetGbps()), LatencyNanos: int(s.GetLatencyNanos())})
	}
	return t
}

// weightsOf turns fractions into thousandths, and refuses finer ones.
func weightsOf(p *ares.Problems, m *apipb.TopologyWeights) ares.Weights {
	part := func(field string, v float64) int {
		n := math.Round(1000 * v)
		if math.IsNaN(v) || v < 0 || v > 1 || math.Abs(1000*v-n) > 1e-6 {
			p.Add("weights."+field, "must be between 0 and 1 in steps of 0.001, got %v", v)
			return 0
		}
		return int(n)
	}
	if m == nil {
		return ares.Weights{}
	}
	w := ares.Weights{
		Availability: part("resource_availability", m.GetResourceAvailability()), Alignment: part("topology_alignment", m.GetTopologyAlignment()),
		Utilization: part("domain_utilization", m.GetDomainUtilization()), History: part("historical_performance", m.GetHistoricalPerformance()),
	}
	if len(*p) == 0 && w == (ares.Weights{}) {
		p.Add("weights", "must add up to 1, got 0: leave them out for 0.4, 0.3, 0.2 and 0.1")
	}
	return w
}

func newTopology(t *ares.Topology) *apipb.Topology {
	m := &apipb.Topology{
		MaxNodesPerLeaf: int32(t.MaxNodesPerLeaf), MaxGpusPerLeaf: int32(t.MaxGPUsPerLeaf), Revision: strconv.FormatInt(t.Revision, 10),
	}
	for _, d := range t.Domains {
		m.Domains = append(m.Domains, &apipb.Domain{
			Name: d.Name, Level: string(d.Level), Parent: d.Parent, Adjacent: d.Adjacent, Switch: d.Switch, Nodes: d.Nodes,
		})
	}
	for _, s := range t.Switches {
		m.Switches = append(m.Switches, &apipb.Switch{Name: s.Name, Gbps: int32(s.Gbps), LatencyNanos: int32(s.LatencyNanos)})
	}
	w := t.Weights
	if w == (ares.Weights{}) {
		w = ares.DefaultWeights()
	}
	m.Weights = &apipb.TopologyWeights{
		ResourceAvailability: float64(w.Availability) / 1000, TopologyAlignment: float64(w.Alignment) / 1000,
		DomainUtilization: float64(w.Utilization) / 1000, HistoricalPerformance: float64(w.History) / 1000,
	}
	return m
}
