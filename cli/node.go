package cli

import (
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
	"github.com/ares-scheduler/ares/client"
)

func (a *app) nodeCommand() *cobra.Command {
	return group("node", "See the machines, and keep work off them", "",
		a.nodeListCommand(), a.nodeGetCommand(), a.nodeGPUsCommand(), a.nodeCordonCommand(), a.nodeUncordonCommand(), a.nodeDrainCommand(), a.nodeRemoveCommand(),
		a.nodeTokenCommand(), a.nodeRevokeCommand(), a.nodeRevocationsCommand())
}

func (a *app) nodeListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List nodes with what is free", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Nodes(ctx) },
				func(w io.Writer, m proto.Message) { a.writeNodes(w, m.(*apipb.ListNodesResponse)) })
		}),
	})
}

func (a *app) writeNodes(w io.Writer, list *apipb.ListNodesResponse) {
	if len(list.GetNodes()) == 0 {
		say(w, "No nodes. \"ares up\" brings one; join others with \"ares agent\".\n")
		return
	}
	t := table{head: []string{"NODE", "STATE", "SINCE", "FREE GPUS", "FREE CPUS", "FREE MB", "JOBS", "SCORE", "MODEL"}}
	for _, n := range list.GetNodes() {
		t.add(n.GetNodeId(), nodeState(n), a.age(n.GetStateSince()), fmt.Sprintf("%d/%d", n.GetGpusFree(), n.GetGpusTotal()),
			fmt.Sprintf("%d/%d", n.GetCpuCoresFree(), n.GetCpuCores()), fmt.Sprintf("%d/%d", n.GetMemoryMbFree(), n.GetMemoryMb()),
			strconv.Itoa(len(n.GetJobs())), strconv.Itoa(nodeScore(n)), models(n))
	}
	t.write(w, a.color)
}

// nodeScore is how a node has done so far, full when nothing is known.
func nodeScore(n *apipb.Node) int {
	if n.GetScore() == nil {
		return ares.FullScore
	}
	return int(n.GetScore().GetScore())
}

// models counts the devices of a node by model.
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

func (a *app) nodeGetCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "get NODE", Short: "Show one node and its devices", Args: exactly("NODE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Node(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeNode(w, m.(*apipb.Node)) })
		}),
	})
}

func (a *app) writeNode(w io.Writer, n *apipb.Node) {
	s := sheet{w}
	s.line("Node", n.GetNodeId())
	s.line("State", fmt.Sprintf("%s for %s", nodeState(n), a.age(n.GetStateSince())))
	if n.GetCordonedBy() != "" {
		word := "Cordoned by"
		if n.GetDrain() != nil {
			word = "Drained by"
		}
		s.line(word, strings.TrimSuffix(n.GetCordonedBy()+": "+n.GetCordonReason(), ": "))
	}
	s.line("Address", n.GetAddress())
	s.line("GPUs", fmt.Sprintf("%d free of %d", n.GetGpusFree(), n.GetGpusTotal()))
	s.line("CPU cores", fmt.Sprintf("%d free of %d", n.GetCpuCoresFree(), n.GetCpuCores()))
	s.line("Memory", fmt.Sprintf("%d MB free of %d", n.GetMemoryMbFree(), n.GetMemoryMb()))
	a.writeNodeScore(s, n)
	if n.GetMock() {
		s.line("Devices", "simulated; the processes are real")
	}
	if !n.GetContains() {
		s.line("Containment", "no cgroup: the death of a job's processes is found by looking for them")
	}
	s.line("Isolation", n.GetIsolation())
	s.line("Labels", pairs(n.GetLabels()))
	s.list("Taints", taints(n))
	s.line("NUMA nodes", numaNodes(n))
	s.line("Version", n.GetVersion())
	s.list("Jobs", n.GetJobs())
	s.list("Reserved", reservationWords(n.GetReservations()))
	s.list("Left running", n.GetDrain().GetLeftRunning())
	if len(n.GetDevices()) == 0 {
		return
	}
	t := table{head: []string{"GPU", "MODEL", "MEMORY MB", "NUMA", "HEALTHY", "JOB", "CELSIUS", "DEVICE"}}
	for _, d := range n.GetDevices() {
		health := "yes"
		if !d.GetHealthy() {
			health = strings.TrimSuffix("no: "+d.GetReason(), ": ")
		}
		t.add(strconv.Itoa(int(d.GetIndex())), firstOf(strings.TrimSpace(d.GetModel()+" "+d.GetMigProfile()), d.GetType()), strconv.Itoa(int(d.GetMemoryMb())),
			strconv.Itoa(int(d.GetNuma())), health, holder(d), celsius(d), d.GetDeviceId())
	}
	say(w, "\n")
	t.write(w, a.color)
}

// elsewhere stands for a job that one may not see.
const elsewhere = "another tenant's"

// holder is who holds a device.
func holder(d *apipb.Device) string {
	if d.GetJobId() == "" && d.GetTaken() {
		return elsewhere
	}
	return firstOf(d.GetJobId(), "-")
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

// numaNodes says what the parts of a machine have, those that are alike together.
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

func (a *app) nodeCordonCommand() *cobra.Command {
	var o readFlags
	var reason string
	c := &cobra.Command{
		Use: "cordon NODE", Short: "Keep new work off a node; what runs there goes on", Args: exactly("NODE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			node, err := c.Cordon(ctx, args[0], reason)
			return a.printNode(&o, node, err)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for others to read")
	o.addOutput(c)
	return c
}

func (a *app) nodeUncordonCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "uncordon NODE", Short: "Let a node have new work again", Args: exactly("NODE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			node, err := c.Uncordon(ctx, args[0])
			return a.printNode(&o, node, err)
		}),
	}
	o.addOutput(c)
	return c
}

func (a *app) nodeRemoveCommand() *cobra.Command {
	var o readFlags
	var force bool
	c := &cobra.Command{
		Use: "remove NODE", Short: "Declare that a machine is gone for good", Args: exactly("NODE"),
		Long: `Forgets a node whose machine will not come back. What it still held is free, so that
finished jobs can be archived and tenants deleted. It is refused while the node has a
session, and while jobs may still live there: after a node's last word each job keeps
its seat for its lost_after.

With --force jobs are taken back at once. Use it only when the machine is switched off
or was started anew: else a job may run in two places.

The certificate of the node is revoked, too (see ares node revoke).`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			seats, err := c.RemoveNode(ctx, args[0], force)
			if err != nil {
				return err
			}
			return a.printValue(o.output, map[string]any{"node_id": args[0], "seats": seats}, func(w io.Writer) {
				say(w, "%s removed, %d seats freed\n", clean(args[0]), seats)
			})
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "take back seats that may still be used: the machine is off or was started anew")
	o.addOutput(c)
	return c
}

func (a *app) printNode(o *readFlags, node *apipb.Node, err error) error {
	if err != nil {
		return err
	}
	return a.print(o, node, func(w io.Writer, _ proto.Message) {
		say(w, "%s %s\n", clean(node.GetNodeId()), nodeState(node))
	})
}

func (a *app) clusterCommand() *cobra.Command {
	var o readFlags
	status := o.add(&cobra.Command{
		Use: "status", Short: "Count nodes, devices and jobs", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.ClusterStatus(ctx) },
				func(w io.Writer, m proto.Message) { a.writeStatus(w, m.(*apipb.GetClusterStatusResponse)) })
		}),
	})
	return group("cluster", "See the whole", "", status)
}

func (a *app) writeStatus(w io.Writer, c *apipb.GetClusterStatusResponse) {
	s := sheet{w}
	if c.GetAlert() != "" {
		s.line("ALERT", c.GetAlert())
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
	s.line("Nodes", nodes)
	gpus := fmt.Sprintf("%d free of %d", c.GetAvailableGpus(), c.GetTotalGpus())
	if c.GetMock() {
		gpus += " (some are simulated)"
	}
	s.line("GPUs", gpus)
	s.line("Jobs", fmt.Sprintf("%d: %d running, %d pending", c.GetTotalJobs(), c.GetRunningJobs(), c.GetPendingJobs()))
	var by []string
	for _, state := range phaseNames() {
		if n := c.GetJobs()[state]; n > 0 {
			by = append(by, fmt.Sprintf("%d %s", n, state))
		}
	}
	s.line("By state", strings.Join(by, ", "))
	s.line("Leader", c.GetLeader())
	s.line("Version", c.GetVersion())
}
