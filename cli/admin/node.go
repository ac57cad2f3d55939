package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) nodeCommand() *cobra.Command {
	return command.Group("node", "Show and drain nodes", "  ares node list", "",
		a.nodeListCommand(), a.nodeGetCommand(), a.nodeGPUsCommand(), a.nodeCordonCommand(), a.nodeUncordonCommand(), a.nodeDrainCommand(), a.nodeRemoveCommand(),
		a.nodeLabelCommand(), a.nodeTokenCommand(), a.nodeRevokeCommand(), a.nodeRevocationsCommand())
}

func (a *commands) nodeListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List nodes with their free capacity", Example: "  ares node list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Nodes(ctx) },
				func(m proto.Message) *output.Table { return a.nodeTable(m.(*apipb.ListNodesResponse)) })
		}),
	})
}

func (a *commands) nodeTable(list *apipb.ListNodesResponse) *output.Table {
	t := &output.Table{Head: []string{"NODE", "STATE", "SINCE", "FREE GPUS", "FREE CPUS", "FREE MB", "JOBS", "SCORE", "MODEL"}, Empty: "No nodes. Start one with \"ares up\", or join one with \"ares agent\".",
		Drop: []string{"SCORE", "SINCE", "FREE MB", "FREE CPUS", "JOBS"}, Passing: []string{"SINCE"}}
	for _, n := range list.GetNodes() {
		t.Add(n.GetNodeId(), nodeState(n), a.Age(n.GetStateSince()), fmt.Sprintf("%d/%d", n.GetGpusFree(), n.GetGpusTotal()),
			fmt.Sprintf("%d/%d", n.GetCpuCoresFree(), n.GetCpuCores()), fmt.Sprintf("%d/%d", n.GetMemoryMbFree(), n.GetMemoryMb()),
			strconv.Itoa(len(n.GetJobs())), strconv.Itoa(nodeScore(n)), models(n))
	}
	return t
}

// nodeScore returns the score that a node has because of its history. A node without history has
// the maximum score.
func nodeScore(n *apipb.Node) int {
	if n.GetScore() == nil {
		return ares.FullScore
	}
	return int(n.GetScore().GetScore())
}

// The function `models` counts the devices of a node by model.
func models(n *apipb.Node) string {
	count := map[string]int{}
	for _, d := range n.GetDevices() {
		count[d.GetModel()]++
	}
	var parts []string
	for _, model := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%dx %s", count[model], model))
	}
	if n.GetMock() {
		parts = append(parts, "(mock)")
	}
	return strings.Join(parts, " ")
}

func (a *commands) nodeGetCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "get NODE", Short: "Show one node and its devices", Example: "  ares node get gpu-1", Args: command.ExactArgs("NODE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Node(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeNode(w, m.(*apipb.Node)) })
		}),
	})
}

func (a *commands) writeNode(w io.Writer, n *apipb.Node) {
	s := output.NewSheet(w)
	s.Line("Node", n.GetNodeId())
	s.Line("State", fmt.Sprintf("%s for %s", nodeState(n), a.Age(n.GetStateSince())))
	if n.GetCordonedBy() != "" {
		word := "Cordoned by"
		if n.GetDrain() != nil {
			word = "Drained by"
		}
		s.Line(word, strings.TrimSuffix(n.GetCordonedBy()+": "+n.GetCordonReason(), ": "))
	}
	s.Line("Address", n.GetAddress())
	s.Line("GPUs", fmt.Sprintf("%d free of %d", n.GetGpusFree(), n.GetGpusTotal()))
	s.Line("CPU cores", fmt.Sprintf("%d free of %d", n.GetCpuCoresFree(), n.GetCpuCores()))
	s.Line("Memory", fmt.Sprintf("%d MB free of %d", n.GetMemoryMbFree(), n.GetMemoryMb()))
	a.writeNodeScore(s, n)
	if n.GetMock() {
		s.Line("Devices", "simulated devices, real processes")
	}
	if !n.GetContains() {
		s.Line("Containment", "no cgroup: the agent searches for the processes of a job")
	}
	s.Line("Isolation", n.GetIsolation())
	s.Line("Images", imagesText(n))
	s.Line("Labels", output.Pairs(n.GetLabels()))
	s.List("Taints", taints(n))
	s.Line("NUMA nodes", numaNodes(n))
	s.Line("Version", n.GetVersion())
	s.List("Jobs", n.GetJobs())
	s.List("Reserved", reservationText(n.GetReservations()))
	s.List("Left running", n.GetDrain().GetLeftRunning())
	if len(n.GetDevices()) == 0 {
		return
	}
	t := output.Table{Head: []string{"GPU", "MODEL", "MEMORY MB", "NUMA", "HEALTHY", "JOB", "CELSIUS", "DEVICE"}}
	for _, d := range n.GetDevices() {
		health := "yes"
		if !d.GetHealthy() {
			health = strings.TrimSuffix("no: "+d.GetReason(), ": ")
		}
		t.Add(strconv.Itoa(int(d.GetIndex())), cmp.Or(strings.TrimSpace(d.GetModel()+" "+d.GetMigProfile()), d.GetType()), strconv.Itoa(int(d.GetMemoryMb())),
			strconv.Itoa(int(d.GetNuma())), health, holder(d), celsius(d), d.GetDeviceId())
	}
	output.Printf(w, "\n")
	a.WriteTable(w, &t)
}

// The constant `elsewhere` is shown instead of the ID of a job that the caller cannot see.
const elsewhere = "another tenant's"

// The function `holder` returns the ID of the job that uses a device.
func holder(d *apipb.Device) string {
	if d.GetJobId() == "" && d.GetTaken() {
		return elsewhere
	}
	return cmp.Or(d.GetJobId(), "-")
}

func celsius(d *apipb.Device) string {
	if d.GetCelsius() == 0 {
		return "-"
	}
	return strconv.Itoa(int(d.GetCelsius()))
}

func taints(n *apipb.Node) []string {
	var out []string
	for _, t := range n.GetTaints() {
		out = append(out, ares.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: ares.Effect(t.GetEffect())}.String())
	}
	return out
}

// numaNodes describes a machine's NUMA nodes. NUMA nodes with the same properties are listed
// together.
func numaNodes(n *apipb.Node) string {
	var parts []string
	all := n.GetNuma()
	for i := 0; i < len(all); {
		k := i + 1
		for k < len(all) && all[k].GetCpuCores() == all[i].GetCpuCores() && all[k].GetMemoryMb() == all[i].GetMemoryMb() {
			k++
		}
		parts = append(parts, fmt.Sprintf("%d of %d CPU cores, %d MB", k-i, all[i].GetCpuCores(), all[i].GetMemoryMb()))
		i = k
	}
	return strings.Join(parts, "; ")
}

func (a *commands) nodeCordonCommand() *cobra.Command {
	var o output.Flags
	var reason string
	c := &cobra.Command{
		Use: "cordon NODE", Short: "Stop placing jobs on a node; running jobs continue", Example: "  ares node cordon gpu-1", Args: command.ExactArgs("NODE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			node, err := c.Cordon(ctx, args[0], reason)
			return a.printNode(&o, node, err)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason that other users see")
	o.AddOutput(c)
	return c
}

func (a *commands) nodeUncordonCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "uncordon NODE", Short: "Allow new jobs on a cordoned node again", Example: "  ares node uncordon gpu-1", Args: command.ExactArgs("NODE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			node, err := c.Uncordon(ctx, args[0])
			return a.printNode(&o, node, err)
		}),
	}
	o.AddOutput(c)
	return c
}

func (a *commands) nodeRemoveCommand() *cobra.Command {
	var o output.Flags
	var force bool
	c := &cobra.Command{
		Use: "remove NODE", Short: "Remove a node whose machine is permanently gone", Example: "  ares node remove gpu-9", Args: command.ExactArgs("NODE"),
		Long: `Remove a node whose machine is permanently gone. The command releases the node's allocations.
Finished jobs can then be archived, and tenants can be deleted. The command fails while the node
is connected. The command also fails while jobs may still run on the node. After the node's last
message, each job keeps its devices for the time set by lost_after_seconds.

With --force the command releases the allocations at once. Use --force only when the machine
is off or was rebooted; otherwise the same job can run on two nodes at once.

The command also revokes the certificate of the node (see ares node revoke).`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			seats, err := c.RemoveNode(ctx, args[0], force)
			if err != nil {
				return err
			}
			return a.PrintValue(o.Format, map[string]any{"node_id": args[0], "seats": seats}, func(w io.Writer) {
				output.Printf(w, "%s removed, %d ranks released\n", output.Clean(args[0]), seats)
			})
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "release allocations even if they may be in use; the machine must be off or rebooted")
	o.AddOutput(c)
	return c
}

func (a *commands) printNode(o *output.Flags, node *apipb.Node, err error) error {
	if err != nil {
		return err
	}
	return a.Print(o, node, func(w io.Writer, _ proto.Message) {
		output.Printf(w, "%s %s\n", output.Clean(node.GetNodeId()), nodeState(node))
	})
}

func (a *commands) clusterCommand() *cobra.Command {
	var o output.Flags
	status := o.Add(&cobra.Command{
		Use: "status", Short: "Show the number of nodes, devices and jobs", Example: "  ares cluster status", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.ClusterStatus(ctx) },
				func(w io.Writer, m proto.Message) { a.writeStatus(w, m.(*apipb.GetClusterStatusResponse)) })
		}),
	})
	return command.Group("cluster", "Show cluster status, and manage the clusters of a hub", "  ares cluster status", "", append([]*cobra.Command{status}, a.clustersCommands()...)...)
}

func (a *commands) writeStatus(w io.Writer, c *apipb.GetClusterStatusResponse) {
	s := output.NewSheet(w)
	if c.GetAlert() != "" {
		s.Line("ALERT", c.GetAlert())
	}
	nodes := fmt.Sprintf("%d online of %d", c.GetOnlineNodes(), c.GetTotalNodes())
	for _, n := range []struct {
		count int32
		word  string
	}{{c.GetCordonedNodes(), "cordoned"}, {c.GetSuspectNodes(), "suspect"}, {c.GetOfflineNodes(), "offline"}} {
		if n.count > 0 {
			nodes += fmt.Sprintf(", %d %s", n.count, n.word)
		}
	}
	s.Line("Nodes", nodes)
	gpus := fmt.Sprintf("%d free of %d", c.GetAvailableGpus(), c.GetTotalGpus())
	if c.GetMock() {
		gpus += " (some are simulated)"
	}
	s.Line("GPUs", gpus)
	s.Line("Jobs", fmt.Sprintf("%d: %d running, %d pending", c.GetTotalJobs(), c.GetRunningJobs(), c.GetPendingJobs()))
	var by []string
	for _, state := range command.PhaseNames() {
		if n := c.GetJobs()[state]; n > 0 {
			by = append(by, fmt.Sprintf("%d %s", n, state))
		}
	}
	s.Line("By state", strings.Join(by, ", "))
	s.Line("Leader", c.GetLeader())
	s.Line("Version", c.GetVersion())
}

// imagesText says whether a node runs jobs with an image, or why it does not.
func imagesText(n *apipb.Node) string {
	switch {
	case n.GetImages() && n.GetNoContainerRoot() != "":
		return "yes, but not with container_root: " + n.GetNoContainerRoot()
	case n.GetImages():
		return "yes"
	case n.GetNoImages() != "":
		return "no: " + n.GetNoImages()
	}
	return "no"
}
