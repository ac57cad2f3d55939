package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

func (a *commands) nodeGPUsCommand() *cobra.Command {
	var o output.Flags
	var best int
	c := &cobra.Command{
		Use: "gpus [NODE]", Short: "Show a node's devices, their links, and the best set of devices", Example: "  ares node gpus --best 2", Args: command.MaxOneArg,
		Long: `Print the devices of a node and the links between them. With --best N, also print the best set
of N free devices. Like the scheduler, the command prefers the set whose slowest link has the
highest bandwidth. If two sets are equal, the next criteria decide, in this order: a higher sum
of link speeds, fewer NUMA nodes, less fragmentation of the remaining devices, lower indexes.
Bandwidths are in MB/s for one direction. Ares does not measure bandwidths, but derives them
from the type of each link. The displayed score does not affect placement. Each pair of devices
has 100 points. NVLink between the two devices raises the points of the pair by 50, and PCIe
lowers them by 30. Consecutive indexes raise them by 10. The score is the sum of all pairs.

NODE is optional if the cluster has only one node.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if best < 0 || best > links.MaxDevices {
				return exit.Usagef("--best: use a number from 1 to %d", links.MaxDevices)
			}
			n, err := oneNode(ctx, c, args)
			if err != nil {
				return err
			}
			v := NewDeviceView(n, best)
			return a.PrintValue(o.Format, v, func(w io.Writer) { a.writeDeviceView(w, v) })
		}),
	}
	c.Flags().IntVar(&best, "best", 0, "also show the best set of N free devices")
	o.AddOutput(c)
	return c
}

// oneNode fetches the named node. Without a name, the cluster must have exactly one node.
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
		return nil, ares.Errorf(ares.NotFound, "there are no nodes: start one with \"ares up\"")
	case 1:
		return c.Node(ctx, nodes[0].GetNodeId())
	default:
		return nil, exit.Usagef("there are %d nodes: name one of \"ares node list\"", len(nodes))
	}
}

// DeviceView is the output of `ares node gpus`, as a table or as JSON.
type DeviceView struct {
	Node     string        `json:"node_id"`
	State    string        `json:"state"`
	Devices  []deviceLine  `json:"devices"`
	Links    [][]string    `json:"links"`
	Best     *deviceSet    `json:"best,omitempty"`
	FirstFit *deviceSet    `json:"first_fit,omitempty"`
	Why      []string      `json:"reasoning,omitempty"`
	matrix   *links.Matrix // the links of the node
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

// deviceSet is a set of devices, with its score and the links between its devices.
type deviceSet struct {
	Devices     []string `json:"devices"`
	Score       int      `json:"score"`
	NVLinks     int      `json:"nvlink_pairs"`
	PCIe        int      `json:"pcie_pairs"`
	Consecutive int      `json:"consecutive_pairs"`
	MBps        int      `json:"slowest_link_mbps"`
}

// NewDeviceView returns the DeviceView of a node. If the argument `best` is not 0, the
// DeviceView includes the best set of that many devices.
func NewDeviceView(n *apipb.Node, best int) *DeviceView {
	v := &DeviceView{Node: n.GetNodeId(), State: n.GetState(), raw: n.GetDevices(), Links: apipb.Links(n.GetLinks())}
	var numa []int
	var free uint64
	slices := map[string]int{}
	for i, d := range v.raw {
		line := deviceLine{
			Name: strconv.Itoa(int(d.GetIndex())), Model: cmp.Or(strings.TrimSpace(d.GetModel()+" "+d.GetMigProfile()), d.GetType()),
			MemoryMB: d.GetMemoryMb(), NUMA: d.GetNuma(), Use: "free",
		}
		if d.GetParent() != "" { // MIG slices of one card share its index
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
			free |= 1 << i // only whole devices can be chosen
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

func (v *DeviceView) Link(i, j int) string {
	if i < len(v.Links) && j < len(v.Links[i]) {
		return v.Links[i][j]
	}
	return ""
}

func (v *DeviceView) set(mask uint64) *deviceSet {
	s := &deviceSet{MBps: v.matrix.BottleneckMBps(mask)}
	for rest := mask; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		s.Devices = append(s.Devices, v.Devices[i].Name)
		for others := rest & (rest - 1); others != 0; others &= others - 1 {
			j := bits.TrailingZeros64(others)
			a, b := int(v.raw[i].GetIndex()), int(v.raw[j].GetIndex())
			s.Score += links.PairScore(v.Link(i, j), a, b)
			switch link := v.Link(i, j); {
			case links.LinkMBps(link) == 0: // the speed of the link is unknown
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

// Counts describes the numbers of device pairs from which a set's score is computed.
func (s *deviceSet) Counts() string {
	return fmt.Sprintf("%s by NVLink, %d by PCIe, %d consecutive", output.Count(s.NVLinks, "pair"), s.PCIe, s.Consecutive)
}

func (s *deviceSet) Names() string { return "[" + strings.Join(s.Devices, " ") + "]" }

func (s *deviceSet) Bandwidth() string {
	if s.MBps == 0 {
		return "no link needed"
	}
	return fmt.Sprintf("%d MB/s on the slowest link", s.MBps)
}

func (a *commands) writeDeviceView(w io.Writer, v *DeviceView) {
	s := output.NewSheet(w)
	s.Line("Node", v.Node+", "+v.State)
	if len(v.Devices) == 0 {
		s.Line("Devices", "none")
		return
	}
	output.Printf(w, "\n")
	v.WriteDevices(w, a.Color)
	output.Printf(w, "\n")
	v.WriteLinks(w, a.Color)
	if v.Why == nil {
		return
	}
	output.Printf(w, "\n")
	if v.Best != nil {
		s.Line("Best", v.Best.Names())
		s.Line("Score", fmt.Sprintf("%d: %s", v.Best.Score, v.Best.Counts()))
		s.Line("Bandwidth", v.Best.Bandwidth()+", modelled")
		s.Line("First fit", fmt.Sprintf("%s, score %d, %s", v.FirstFit.Names(), v.FirstFit.Score, v.FirstFit.Bandwidth()))
	}
	s.List("Reasoning", v.Why)
}

// WriteDevices writes the table of devices.
func (v *DeviceView) WriteDevices(w io.Writer, color bool) {
	t := output.Table{Head: []string{"GPU", "MODEL", "MEMORY MB", "NUMA", "USE"}}
	for _, d := range v.Devices {
		t.Add(d.Name, d.Model, strconv.Itoa(int(d.MemoryMB)), strconv.Itoa(int(d.NUMA)), d.Use)
	}
	t.Write(w, color)
}

// WriteLinks writes the table of links between devices.
func (v *DeviceView) WriteLinks(w io.Writer, color bool) {
	if len(v.Links) == 0 {
		output.Printf(w, "The node does not report the links between its devices: all count as SYS.\n")
		return
	}
	t := output.Table{Head: []string{"LINKS"}}
	for _, d := range v.Devices {
		t.Head = append(t.Head, "GPU"+d.Name)
	}
	for i, d := range v.Devices {
		row := []string{"GPU" + d.Name}
		for j := range v.Devices {
			row = append(row, cmp.Or(v.Link(i, j), "?"))
		}
		t.Add(row...)
	}
	t.Write(w, color)
}
