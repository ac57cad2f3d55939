package cli

import (
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
	"github.com/ares-scheduler/ares/client"
)

func (a *app) topologyCommand() *cobra.Command {
	return group("topology", "See and describe how the machines are connected", "", a.topologyShowCommand(), a.topologyApplyCommand(), a.topologyGainCommand())
}

func (a *app) topologyShowCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "show", Short: "Show the tree of places with nodes, free GPUs and switches", Args: exactly(),
		Long: `Shows regions, zones, spines, leaves and the nodes in them, from the file that was
applied and from the nodes' labels region, zone, spine, and leaf or rack.

With -o yaml it prints what "ares topology apply -f" takes.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			t, err := c.Topology(ctx)
			if err != nil {
				return err
			}
			var nodes []*apipb.Node
			if o.output == "table" {
				list, err := c.Nodes(ctx)
				if err != nil {
					return err
				}
				nodes = list.GetNodes()
			}
			t.Revision = "" // a file is applied again whatever happened in between
			return a.print(&o, t, func(w io.Writer, _ proto.Message) { a.writeTopology(w, t, nodes) })
		}),
	}
	o.addOutput(c)
	return c
}

func (a *app) topologyApplyCommand() *cobra.Command {
	var o readFlags
	var file string
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Replace the whole topology by that of a file", Args: exactly(),
		Long: `The file is YAML or JSON:

  domains:
    - {name: spine-1, level: spine, switch: 400GbE}
    - {name: leaf-1, level: leaf, parent: spine-1, switch: 100GbE, adjacent: [leaf-2], nodes: [n1, n2]}
    - {name: leaf-2, level: leaf, parent: spine-1, switch: 100GbE}
  switches:
    - {name: 25GbE, gbps: 25, latency_nanos: 3000}
  weights: {resource_availability: .4, topology_alignment: .3, domain_utilization: .2, historical_performance: .1}
  max_nodes_per_leaf: 4
  max_gpus_per_leaf: 32

Levels are region, zone, spine, and leaf or rack. A node that no leaf lists is where its
labels say. What the file does not say goes back to its default.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if file == "" {
				return usagef("say which file: ares topology apply -f topology.yaml")
			}
			ask := &apipb.Topology{}
			if err := a.readMessage(file, ask); err != nil {
				return err
			}
			got, err := c.ApplyTopology(ctx, ask)
			if err != nil {
				return err
			}
			return a.print(&o, got, func(w io.Writer, _ proto.Message) {
				say(w, "topology applied: %d domains, %d switches\n", len(got.GetTopology().GetDomains()), len(got.GetTopology().GetSwitches()))
				for _, warning := range got.GetWarnings() {
					say(a.err, "warning: %s\n", clean(warning))
				}
			})
		}),
	}
	c.Flags().StringVarP(&file, "file", "f", "", "file with the topology, YAML or JSON; - for standard input")
	o.addOutput(c)
	return c
}

// place is a domain in the tree that is shown.
type place struct {
	level, name string
	about       []string
	inside      []*place
	nodes       []string
	free, total int32
}

// fromLabels is all there is to say about a place that no file describes.
var fromLabels = []string{"from labels"}

// tree puts domains and nodes into places.
type tree struct {
	byName map[string]*place // of the topology's domains
	byPath map[string]*place // of domains that only labels name
	root   place
}

func treeOf(t *apipb.Topology, nodes []*apipb.Node) *tree {
	tr := &tree{byName: map[string]*place{}, byPath: map[string]*place{}}
	for _, d := range t.GetDomains() {
		p := &place{level: d.GetLevel(), name: d.GetName()}
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

// labelled is the place that a node's labels name, made where the topology has
// none.
func (tr *tree) labelled(n *apipb.Node) *place {
	at, path := &tr.root, ""
	for _, level := range []ares.Level{ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf} {
		name := n.GetLabels()[string(level)]
		if level == ares.LevelLeaf {
			name = firstOf(name, n.GetLabels()["rack"])
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
			p := &place{level: string(level), name: name, about: fromLabels}
			tr.byPath[path] = p
			at.inside = append(at.inside, p)
		}
		at = tr.byPath[path]
	}
	return at
}

func (p *place) add(id string, n *apipb.Node) {
	if n == nil {
		p.nodes = append(p.nodes, id+"  not registered")
		return
	}
	p.nodes = append(p.nodes, fmt.Sprintf("%s  %d/%d GPUs free  %s", id, n.GetGpusFree(), n.GetGpusTotal(), n.GetState()))
	p.free, p.total = p.free+n.GetGpusFree(), p.total+n.GetGpusTotal()
}

// settle sorts a place and counts what is inside of it.
func (p *place) settle() {
	slices.Sort(p.nodes)
	slices.SortStableFunc(p.inside, func(a, b *place) int {
		if r := ares.Level(a.level).Rank() - ares.Level(b.level).Rank(); r != 0 {
			return r
		}
		return strings.Compare(a.name, b.name)
	})
	// A place that only labels name is nowhere when the topology says where its
	// nodes are.
	p.inside = slices.DeleteFunc(p.inside, func(q *place) bool {
		return len(q.nodes)+len(q.inside) == 0 && slices.Equal(q.about, fromLabels)
	})
	for _, q := range p.inside {
		q.settle()
		p.free, p.total = p.free+q.free, p.total+q.total
	}
}

func (p *place) write(w io.Writer, indent string) {
	for _, q := range p.inside {
		line := fmt.Sprintf("%s %s  %d/%d GPUs free", q.level, q.name, q.free, q.total)
		say(w, "%s%s\n", indent, clean(strings.Join(append([]string{line}, q.about...), "  ")))
		q.write(w, indent+"  ")
	}
	for _, n := range p.nodes {
		say(w, "%s%s\n", indent, clean("node "+n))
	}
}

func (a *app) writeTopology(w io.Writer, t *apipb.Topology, nodes []*apipb.Node) {
	tr := treeOf(t, nodes)
	say(w, "fleet  %d/%d GPUs free\n", tr.root.free, tr.root.total)
	tr.root.write(w, "  ")
	say(w, "\n")
	s, weights := sheet{w}, t.GetWeights()
	s.line("Weights", fmt.Sprintf("availability %g, alignment %g, utilization %g, history %g", weights.GetResourceAvailability(),
		weights.GetTopologyAlignment(), weights.GetDomainUtilization(), weights.GetHistoricalPerformance()))
	if n := t.GetMaxNodesPerLeaf(); n > 0 {
		s.line("Nodes a leaf", fmt.Sprintf("at most %d for one job", n))
	}
	if n := t.GetMaxGpusPerLeaf(); n > 0 {
		s.line("GPUs a leaf", fmt.Sprintf("at most %d for one job", n))
	}
	used, own := map[string]bool{}, map[string]bool{}
	for _, d := range t.GetDomains() {
		used[d.GetSwitch()] = true
	}
	rows := table{head: []string{"SWITCH", "GBIT/S", "LATENCY"}}
	row := func(name string, gbps, nanos int) {
		rows.add(name, strconv.Itoa(gbps), fmt.Sprintf("%g us", float64(nanos)/1000))
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
	if len(rows.rows) > 0 {
		say(w, "\n")
		rows.write(w, a.color)
	}
}
