package service

import (
	"context"
	"fmt"
	"math"
	"strconv"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// topologyService implements TopologyService.
type topologyService struct {
	apipb.UnimplementedTopologyServiceServer
	*Services
}

// maxWarnings is the maximum number of warnings about a topology. Beyond this
// number, warnings are only counted.
const maxWarnings = 50

// GetTopology implements apipb.TopologyServiceServer.
func (d *topologyService) GetTopology(ctx context.Context, _ *apipb.GetTopologyRequest) (*apipb.GetTopologyResponse, error) {
	t, err := d.Cfg.Store.Topology(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.GetTopologyResponse{Topology: newTopology(&t)}, nil
}

// ApplyTopology implements apipb.TopologyServiceServer.
func (d *topologyService) ApplyTopology(ctx context.Context, req *apipb.ApplyTopologyRequest) (*apipb.ApplyTopologyResponse, error) {
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
	pipeline.AuditChange(ctx, "", was, made)
	d.WaitForView(ctx, made.Revision)
	return &apipb.ApplyTopologyResponse{Topology: newTopology(&made), Warnings: d.unknown(&made)}, nil
}

// The method `replace` replaces the topology. If the request specifies a
// revision, the current topology must have that revision.
func (d *topologyService) replace(ctx context.Context, t ares.Topology, revision string) (was, made ares.Topology, err error) {
	made, err = store.Retry(tenantTries, func() (ares.Topology, error) {
		if was, err = d.Cfg.Store.Topology(ctx); err != nil {
			return t, err
		}
		t.Revision = was.Revision
		if revision != "" {
			if t.Revision, err = RevisionOf("revision", revision); err != nil {
				return t, err
			}
		}
		put, failed := d.Cfg.Store.PutTopology(ctx, t)
		if ares.CodeOf(failed) == ares.Conflict && revision == "" {
			failed = store.Conflict{Err: failed}
		}
		return put, failed
	})
	return was, made, err
}

// The method `unknown` returns a warning for each unregistered node that a topology names.
func (d *topologyService) unknown(t *ares.Topology) []string {
	var out []string
	more := 0
	for _, dom := range t.Domains {
		for _, n := range dom.Nodes {
			if d.Cfg.View.Node(n) != nil {
				continue
			}
			if len(out) == maxWarnings {
				more++
				continue
			}
			out = append(out, fmt.Sprintf("node %s of %s %s has not registered", ares.Clip(n), dom.Level, dom.Name))
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

// weightsOf converts weights from fractions to thousandths, and rejects weights
// with more than three decimals.
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
