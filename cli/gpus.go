package cli

import (
	"context"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

func (a *app) nodeGPUsCommand() *cobra.Command {
	var o readFlags
	var best int
	c := &cobra.Command{
		Use: "gpus [NODE]", Short: "Show how a node's devices reach each other, and which are best together", Args: atMostOne,
		Long: `Prints a node's devices and the links between them; with --best N also the N free
devices that are best together, by the same rules as a placement inside one node: the
fastest slowest link, the highest sum of links, the fewest NUMA nodes, what stays
together of the rest, the lowest indexes. Bandwidths are modelled from the kind of link
(MB/s, one direction), not measured. The score is for people: +100 for each pair on one
node, +50 for NVLink, -30 for PCIe, +10 for consecutive devices.

NODE may be left out when there is only one.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if best < 0 || best > links.MaxDevices {
				return usagef("--best: want a number from 1 to %d", links.MaxDevices)
			}
			n, err := oneNode(ctx, c, args)
			if err != nil {
				return err
			}
			v := newDeviceView(n, best)
			return a.printValue(o.output, v, func(w io.Writer) { a.writeDeviceView(w, v) })
		}),
	}
	c.Flags().IntVar(&best, "best", 0, "also show the best set of so many free devices")
	o.addOutput(c)
	return c
}

// oneNode fetches the node that is named, or the only one there is.
func oneNode(ctx context.Context, c *client.Client, args []string) (*apipb.Node, error) {
	if len(args) == 1 {
		return c.Node(ctx, args[0])
	}
	list, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	switch nodes := list.GetNodes(); len(nodes) {
	case 0:
		return nil, ares.Errorf(ares.NotFound, "there are no nodes: \"ares up\" brings one")
	case 1:
		return c.Node(ctx, nodes[0].GetNodeId())
	default:
		return nil, usagef("there are %d nodes: name one (see: ares node list)", len(nodes))
	}
}

// deviceView is what `node gpus` shows, also as JSON.
type deviceView struct {
	Node     string        `json:"node_id"`
	State    string        `json:"state"`
	Devices  []deviceLine  `json:"devices"`
	Links    [][]string    `json:"links"`
	Best     *deviceSet    `json:"best,omitempty"`
	FirstFit *deviceSet    `json:"first_fit,omitempty"`
	Why      []string      `json:"reasoning,omitempty"`
	matrix   *links.Matrix // of the node
	raw      []*apipb.Device
}

type deviceLine struct {
	Name     string `json:"name"`
	Model    string `json:"model"`
	MemoryMB int32  `json:"memory_mb"`
	NUMA     int32  `json:"numa"`
	Free     bool   `json:"free"`
	Use      string `json:"use"`
}

// deviceSet is some devices with what is said of them.
type deviceSet struct {
	Devices     []string `json:"devices"`
	Score       int      `json:"score"`
	NVLinks     int      `json:"nvlink_pairs"`
	PCIe        int      `json:"pcie_pairs"`
	Consecutive int      `json:"consecutive_pairs"`
	MBps        int      `json:"slowest_link_mbps"`
}

// newDeviceView looks at a node; best is how many devices are wanted, 0 for
// none.
func newDeviceView(n *apipb.Node, best int) *deviceView {
	v := &deviceView{Node: n.GetNodeId(), State: n.GetState(), raw: n.GetDevices(), Links: apipb.Links(n.GetLinks())}
	var numa []int
	var free uint64
	slices := map[string]int{}
	for i, d := range v.raw {
		line := deviceLine{
			Name: strconv.Itoa(int(d.GetIndex())), Model: firstOf(strings.TrimSpace(d.GetModel()+" "+d.GetMigProfile()), d.GetType()),
			MemoryMB: d.GetMemoryMb(), NUMA: d.GetNuma(), Use: "free",
		}
		if d.GetParent() != "" { // slices of one card share its index
			line.Name += "/" + strconv.Itoa(slices[d.GetParent()])
			slices[d.GetParent()]++
		}
		switch {
		case !d.GetHealthy():
			line.Use = strings.TrimSuffix("unhealthy: "+d.GetReason(), ": ")
		case d.GetJobId() != "":
			line.Use = d.GetJobId()
		case d.GetTaken():
			line.Use = elsewhere
		default:
			line.Free = true
		}
		if line.Free && d.GetParent() == "" && i < links.MaxDevices {
			free |= 1 << i // a request is for whole devices
		}
		numa = append(numa, int(d.GetNuma()))
		v.Devices = append(v.Devices, line)
	}
	v.matrix = links.NewMatrix(v.Links, numa)
	if best == 0 {
		return v
	}
	v.Why = v.matrix.Explain(free, 0, best, func(i int) string { return v.Devices[i].Name })
	if c, ok := v.matrix.Best(free, 0, best); ok {
		v.Best, v.FirstFit = v.set(c.Devices), v.set(v.matrix.FirstFit(free, best))
	}
	return v
}

func (v *deviceView) link(i, j int) string {
	if i < len(v.Links) && j < len(v.Links[i]) {
		return v.Links[i][j]
	}
	return ""
}

func (v *deviceView) set(mask uint64) *deviceSet {
	s := &deviceSet{MBps: v.matrix.BottleneckMBps(mask)}
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		s.Devices = append(s.Devices, v.Devices[i].Name)
		for others := rest & (rest - 1); others != 0; others &= others - 1 {
			j := bits.TrailingZeros64(others)
			a, b := int(v.raw[i].GetIndex()), int(v.raw[j].GetIndex())
			s.Score += links.PairScore(v.link(i, j), a, b)
			switch link := v.link(i, j); {
			case links.LinkMBps(link) == 0: // not known
			case strings.HasPrefix(link, "NV"):
				s.NVLinks++
			default:
				s.PCIe++
			}
			if b-a == 1 {
				s.Consecutive++
			}
		}
	}
	return s
}

// counts says what a score is made of.
func (s *deviceSet) counts() string {
	return fmt.Sprintf("%s by NVLink, %d by PCIe, %d consecutive", count(s.NVLinks, "pair"), s.PCIe, s.Consecutive)
}

func (s *deviceSet) names() string { return "[" + strings.Join(s.Devices, " ") + "]" }

func (s *deviceSet) bandwidth() string {
	if s.MBps == 0 {
		return "no link is needed"
	}
	return fmt.Sprintf("%d MB/s on the slowest link", s.MBps)
}

func (a *app) writeDeviceView(w io.Writer, v *deviceView) {
	s := sheet{w}
	s.line("Node", v.Node+", "+v.State)
	if len(v.Devices) == 0 {
		s.line("Devices", "none")
		return
	}
	say(w, "\n")
	a.writeDevices(w, v)
	say(w, "\n")
	a.writeLinks(w, v)
	if v.Why == nil {
		return
	}
	say(w, "\n")
	if v.Best != nil {
		s.line("Best", v.Best.names())
		s.line("Score", fmt.Sprintf("%d: %s", v.Best.Score, v.Best.counts()))
		s.line("Bandwidth", v.Best.bandwidth()+", modelled")
		s.line("First fit", fmt.Sprintf("%s, score %d, %s", v.FirstFit.names(), v.FirstFit.Score, v.FirstFit.bandwidth()))
	}
	s.list("Reasoning", v.Why)
}

func (a *app) writeDevices(w io.Writer, v *deviceView) {
	t := table{head: []string{"GPU", "MODEL", "MEMORY MB", "NUMA", "USE"}}
	for _, d := range v.Devices {
		t.add(d.Name, d.Model, strconv.Itoa(int(d.MemoryMB)), strconv.Itoa(int(d.NUMA)), d.Use)
	}
	t.write(w, a.color)
}

func (a *app) writeLinks(w io.Writer, v *deviceView) {
	if len(v.Links) == 0 {
		say(w, "The node does not say how its devices are linked: all count as SYS.\n")
		return
	}
	t := table{head: []string{"LINKS"}}
	for _, d := range v.Devices {
		t.head = append(t.head, "GPU"+d.Name)
	}
	for i, d := range v.Devices {
		row := []string{"GPU" + d.Name}
		for j := range v.Devices {
			row = append(row, firstOf(v.link(i, j), "?"))
		}
		t.add(row...)
	}
	t.write(w, a.color)
}
