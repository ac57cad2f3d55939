package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) topologyCommand() *cobra.Command {
	return command.Group("topology", "Show and change the network topology", "  ares topology show", "", a.topologyShowCommand(), a.topologyApplyCommand(), a.topologyGainCommand())
}

func (a *commands) topologyShowCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "show", Short: "Show the network topology with nodes, free GPUs and switches", Example: "  ares topology show", Args: command.ExactArgs(),
		Long: `Show regions, zones, spines, leaves and their nodes. The topology comes from the applied file
and from node labels. The labels are region, zone, spine and leaf. The label "rack" is another
name for "leaf".

With -o yaml, the output can be edited and passed to "ares topology apply -f".`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			t, err := c.Topology(ctx)
			if err != nil {
				return err
			}
			var nodes []*apipb.Node
			if o.Format == "table" {
				list, err := c.Nodes(ctx)
				if err != nil {
					return err
				}
				nodes = list.GetNodes()
			}
			t.Revision = "" // without a revision, the output can be applied even if the topology has changed since
			return a.Print(&o, t, func(w io.Writer, _ proto.Message) { a.writeTopology(w, t, nodes) })
		}),
	}
	o.AddOutput(c)
	return c
}

func (a *commands) topologyApplyCommand() *cobra.Command {
	var o output.Flags
	var file string
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Replace the topology with the topology in a file", Example: `  ares topology show -o yaml > topology.yaml
  ares topology apply -f topology.yaml`, Args: command.ExactArgs(),
		Long: `Replace the topology of the cluster with the topology in a file, in YAML or JSON:

  domains:
    - {name: spine-1, level: spine, switch: 400GbE}
    - {name: leaf-1, level: leaf, parent: spine-1, switch: 100GbE, adjacent: [leaf-2], nodes: [n1, n2]}
    - {name: leaf-2, level: leaf, parent: spine-1, switch: 100GbE}
  switches:
    - {name: 25GbE, gbps: 25, latency_nanos: 3000}
  weights: {resource_availability: .4, topology_alignment: .3, domain_utilization: .2, historical_performance: .1}
  max_nodes_per_leaf: 4
  max_gpus_per_leaf: 32

The topology levels are region, zone, spine and leaf. The level "rack" is another name for
"leaf". If no leaf in the file lists a node, the node's labels determine its leaf. A setting that
is missing in the file gets its default.

A SchedulerConfig of the topology-aware scheduler (apiVersion: topology.scheduler/v1alpha1) is
accepted too. Its scoringWeights and topologyConstraints replace the weights and the limits of
the topology. Domains and switches stay.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if file == "" {
				return exit.Usagef("-f is missing: ares topology apply -f topology.yaml")
			}
			ask, err := a.requestedTopology(ctx, c, file)
			if err != nil {
				return err
			}
			got, err := c.ApplyTopology(ctx, ask)
			if err != nil {
				return err
			}
			return a.Print(&o, got, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "topology applied: %d domains, %d switches\n", len(got.GetTopology().GetDomains()), len(got.GetTopology().GetSwitches()))
				for _, warning := range got.GetWarnings() {
					output.Printf(a.Err, "warning: %s\n", output.Clean(warning))
				}
			})
		}),
	}
	c.Flags().StringVarP(&file, "file", "f", "", "file with the topology, YAML or JSON; - for standard input")
	o.AddOutput(c)
	return c
}

// treeDomain is a topology domain in the tree that `ares topology` prints.
type treeDomain struct {
	level, name string
	about       []string
	inside      []*treeDomain
	nodes       []string
	free, total int32
	// hopNanos is the latency of the domain's own switch, or 0 if no switch is declared. The field latencyNanos is the
	// latency between its most distant nodes. It is assumed if it includes a switch that is not declared.
	hopNanos, latencyNanos int
	isAssumed              bool
}

// fromLabels marks a domain that comes only from node labels and not from the topology.
var fromLabels = []string{"from labels"}

// The type `tree` builds the printed tree from domains and nodes.
type tree struct {
	byName map[string]*treeDomain // domains of the topology
	byPath map[string]*treeDomain // domains that only node labels define
	root   treeDomain
}

func treeOf(t *apipb.Topology, nodes []*apipb.Node) *tree {
	tr := &tree{byName: map[string]*treeDomain{}, byPath: map[string]*treeDomain{}}
	hops := map[string]int{}
	for _, s := range ares.DefaultSwitches() {
		hops[s.Name] = s.LatencyNanos
	}
	for _, s := range t.GetSwitches() {
		hops[s.GetName()] = int(s.GetLatencyNanos())
	}
	for _, d := range t.GetDomains() {
		p := &treeDomain{level: d.GetLevel(), name: d.GetName(), hopNanos: hops[d.GetSwitch()]}
		if d.GetSwitch() != "" {
			p.about = append(p.about, d.GetSwitch())
		}
		if len(d.GetAdjacent()) > 0 {
			p.about = append(p.about, "next to "+strings.Join(d.GetAdjacent(), ", "))
		}
		tr.byName[d.GetName()] = p
	}
	known := map[string]*apipb.Node{}
	for _, n := range nodes {
		known[n.GetNodeId()] = n
	}
	listed := map[string]bool{}
	for _, d := range t.GetDomains() {
		p, up := tr.byName[d.GetName()], tr.byName[d.GetParent()]
		if up == nil {
			up = &tr.root
		}
		up.inside = append(up.inside, p)
		for _, id := range d.GetNodes() {
			listed[id] = true
			p.add(id, known[id])
		}
	}
	for _, n := range nodes {
		if !listed[n.GetNodeId()] {
			tr.labelled(n).add(n.GetNodeId(), n)
		}
	}
	tr.root.settle()
	return tr
}

// The method `labelled` returns the domain that is named in a node's labels. If the topology has no
// domain of that name, the method creates it.
func (tr *tree) labelled(n *apipb.Node) *treeDomain {
	at, path := &tr.root, ""
	for _, level := range []ares.Level{ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf} {
		name := n.GetLabels()[string(level)]
		if level == ares.LevelLeaf {
			name = cmp.Or(name, n.GetLabels()["rack"])
		}
		if name == "" {
			continue
		}
		if p := tr.byName[name]; p != nil && p.level == string(level) {
			at, path = p, path+"/"+name
			continue
		}
		path += "/" + name
		if tr.byPath[path] == nil {
			p := &treeDomain{level: string(level), name: name, about: fromLabels}
			tr.byPath[path] = p
			at.inside = append(at.inside, p)
		}
		at = tr.byPath[path]
	}
	return at
}

func (p *treeDomain) add(id string, n *apipb.Node) {
	if n == nil {
		p.nodes = append(p.nodes, id+"  not registered")
		return
	}
	p.nodes = append(p.nodes, fmt.Sprintf("%s  %d/%d GPUs free  %s", id, n.GetGpusFree(), n.GetGpusTotal(), n.GetState()))
	p.free, p.total = p.free+n.GetGpusFree(), p.total+n.GetGpusTotal()
}

// The method `settle` sorts the nodes and subdomains of a domain, and counts its devices.
func (p *treeDomain) settle() {
	slices.Sort(p.nodes)
	slices.SortStableFunc(p.inside, func(a, b *treeDomain) int {
		if r := ares.Level(a.level).Rank() - ares.Level(b.level).Rank(); r != 0 {
			return r
		}
		return strings.Compare(a.name, b.name)
	})
	// A domain that comes only from node labels is empty if the topology assigns all its nodes to
	// other domains.
	p.inside = slices.DeleteFunc(p.inside, func(q *treeDomain) bool {
		return len(q.nodes)+len(q.inside) == 0 && slices.Equal(q.about, fromLabels)
	})
	slowest := 0
	for _, q := range p.inside {
		q.settle()
		p.free, p.total = p.free+q.free, p.total+q.total
		slowest, p.isAssumed = max(slowest, q.latencyNanos), p.isAssumed || q.isAssumed
	}
	p.isAssumed = p.isAssumed || p.hopNanos == 0
	p.latencyNanos = cmp.Or(p.hopNanos, ares.AssumedHopNanos) + 2*slowest // a path goes up and down
}

// latencyText describes the latency between the most distant nodes of a domain.
func (p *treeDomain) latencyText() string {
	if p.isAssumed {
		return fmt.Sprintf("latency about %g us", float64(p.latencyNanos)/1000)
	}
	return fmt.Sprintf("latency %g us", float64(p.latencyNanos)/1000)
}

func (p *treeDomain) write(w io.Writer, indent string) {
	for _, q := range p.inside {
		line := fmt.Sprintf("%s %s  %d/%d GPUs free", q.level, q.name, q.free, q.total)
		output.Printf(w, "%s%s\n", indent, output.Clean(strings.Join(append([]string{line, q.latencyText()}, q.about...), "  ")))
		q.write(w, indent+"  ")
	}
	for _, n := range p.nodes {
		output.Printf(w, "%s%s\n", indent, output.Clean("node "+n))
	}
}

func (a *commands) writeTopology(w io.Writer, t *apipb.Topology, nodes []*apipb.Node) {
	tr := treeOf(t, nodes)
	output.Printf(w, "fleet  %d/%d GPUs free\n", tr.root.free, tr.root.total)
	tr.root.write(w, "  ")
	output.Printf(w, "\n")
	s, weights := output.NewSheet(w), t.GetWeights()
	s.Line("Weights", fmt.Sprintf("availability %g, alignment %g, utilization %g, history %g", weights.GetResourceAvailability(),
		weights.GetTopologyAlignment(), weights.GetDomainUtilization(), weights.GetHistoricalPerformance()))
	if n := t.GetMaxNodesPerLeaf(); n > 0 {
		s.Line("Nodes a leaf", fmt.Sprintf("at most %d for one job", n))
	}
	if n := t.GetMaxGpusPerLeaf(); n > 0 {
		s.Line("GPUs a leaf", fmt.Sprintf("at most %d for one job", n))
	}
	used, own := map[string]bool{}, map[string]bool{}
	for _, d := range t.GetDomains() {
		used[d.GetSwitch()] = true
	}
	rows := output.Table{Head: []string{"SWITCH", "GBIT/S", "LATENCY"}}
	row := func(name string, gbps, nanos int) {
		rows.Add(name, strconv.Itoa(gbps), fmt.Sprintf("%g us", float64(nanos)/1000))
	}
	for _, sw := range t.GetSwitches() {
		own[sw.GetName()] = true
		row(sw.GetName(), int(sw.GetGbps()), int(sw.GetLatencyNanos()))
	}
	for _, sw := range ares.DefaultSwitches() {
		if used[sw.Name] && !own[sw.Name] {
			row(sw.Name, sw.Gbps, sw.LatencyNanos)
		}
	}
	if len(rows.Rows) > 0 {
		output.Printf(w, "\n")
		rows.Write(w, a.Color)
	}
}
