package admin

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// clustersCommands returns the commands about the clusters of a federation.
func (a *commands) clustersCommands() []*cobra.Command {
	return []*cobra.Command{
		a.clusterRegisterCommand(), a.clusterListCommand(), a.clusterGetCommand(),
		a.clusterCordonCommand(), a.clusterUncordonCommand(), a.clusterDrainCommand(), a.clusterDeadCommand(), a.clusterLeaveCommand(), a.clusterHubCommand(),
	}
}

func (a *commands) clusterRegisterCommand() *cobra.Command {
	var o output.Flags
	var region, ttl string
	var labels, prices []string
	c := &cobra.Command{
		Use: "register CLUSTER", Short: "Let a cluster join this hub, and print its join token once", Args: command.ExactArgs("CLUSTER"),
		Long: `Let a cluster join this hub. The command prints a token with which one cluster joins once, under
this name: run "ares join --global HUB --token TOKEN" there. Keep the token secret, like a password.

The region, the labels and the prices are decided here and not by the cluster. Jobs that name
regions run only in clusters of these regions. A GPU model without a price counts as free.

Registering a cluster again makes a new token, for a cluster that has left, has a new store, or has
lost its certificate. The region, the labels and the prices stay as they are unless you give others;
labels replace all labels, and prices all prices.`,
		Example: "  ares cluster register east --region eu-east --price H100=2.50",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			life, err := command.ReadDurationWithin("ttl", ttl, "1m", "7d")
			if err != nil {
				return err
			}
			ask := &apipb.RegisterClusterRequest{Name: args[0], Region: region, TtlSeconds: int32(life / time.Second)}
			if err = command.AssignPairs(&ask.Labels, "--label", labels); err != nil {
				return err
			}
			if ask.Prices, err = readPrices(prices); err != nil {
				return err
			}
			made, err := c.RegisterCluster(ctx, ask)
			if err != nil {
				return err
			}
			return a.Print(&o, made, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s\n", made.GetToken())
				output.Printf(a.Err, "valid for one join until %s; in the cluster %s:\n  ares join --global %s --token TOKEN\n",
					a.When(made.GetExpiresAt()), output.Clean(args[0]), hubAddresses(a.Addresses()))
			})
		}),
	}
	c.Flags().StringVar(&region, "region", "", "region of the cluster's nodes, for jobs that name regions")
	c.Flags().StringArrayVar(&labels, "label", nil, "label of the cluster, NAME=VALUE; may be repeated")
	c.Flags().StringArrayVar(&prices, "price", nil, "price of a GPU-hour, MODEL=PRICE, such as H100=2.50; may be repeated")
	c.Flags().StringVar(&ttl, "ttl", "1h", "lifetime of the token: 1m to 7d")
	o.AddOutput(c)
	return c
}

// hubAddresses are the addresses of the hub as the text of a command. A loopback address is of no use in another machine.
func hubAddresses(all []string) string {
	for _, addr := range all {
		host, port, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err != nil || host == "localhost" || ip != nil && ip.IsLoopback() {
			return "HUB:" + cmp.Or(port, "9090")
		}
	}
	return strings.Join(all, ",")
}

// readPrices reads prices of GPU-hours into millionths of the currency.
func readPrices(texts []string) (map[string]int64, error) {
	var pairs map[string]string
	if err := command.AssignPairs(&pairs, "--price", texts); err != nil {
		return nil, err
	}
	var out map[string]int64
	for _, model := range slices.Sorted(maps.Keys(pairs)) {
		price, err := strconv.ParseFloat(pairs[model], 64)
		if err != nil || price < 0 || price > 1e9 {
			return nil, exit.Usagef("--price %s=%s: use a number such as 2.50", model, pairs[model])
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[model] = int64(price*1e6 + 0.5)
	}
	return out, nil
}

func (a *commands) clusterListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the clusters of this hub, or of the hub that this cluster has joined", Example: "  ares cluster list", Args: command.ExactArgs(),
		Long: `List the clusters of this hub. At a server of a cluster, the list is the cluster's copy of what its
hub said last, also while the hub cannot be reached.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Clusters(ctx) },
				func(m proto.Message) *output.Table { return a.clusterTable(m.(*apipb.ListClustersResponse)) })
		}),
	})
}

func (a *commands) clusterTable(list *apipb.ListClustersResponse) *output.Table {
	t := &output.Table{
		Head:  []string{"CLUSTER", "STATE", "SINCE", "REGION", "JOBS", "NODES", "GPUS", "VERSION", "LABELS"},
		Empty: "No clusters. At a hub, let one join with \"ares cluster register\".",
		Drop:  []string{"LABELS", "VERSION", "NODES", "SINCE", "GPUS"}, Flex: []string{"GPUS", "LABELS"}, Passing: []string{"SINCE"},
	}
	for _, c := range list.GetClusters() {
		nodes, jobs := "-", strconv.Itoa(int(c.GetJobs()))
		if c.GetDescription() != nil {
			nodes = strconv.Itoa(int(c.GetDescription().GetNodes()))
		}
		if c.GetCopiedAt() != nil {
			jobs, t.Note = "-", a.copyNote(c) // only the hub counts them
		}
		t.Add(c.GetName(), clusterState(c), a.Age(cmp.Or(c.GetUnreachableSince(), c.GetStateSince())), cmp.Or(c.GetRegion(), "-"), jobs, nodes,
			cmp.Or(gpuCounts(c.GetDescription()), "-"), cmp.Or(c.GetVersion(), "-"), output.Pairs(c.GetLabels()))
	}
	return t
}

// gpuCounts lists the GPUs of a cluster by model.
func gpuCounts(d *apipb.ClusterDescription) string {
	var parts []string
	for _, g := range d.GetGpus() {
		parts = append(parts, fmt.Sprintf("%d %s", g.GetCount(), output.Clean(cmp.Or(g.GetModel(), "of an unknown model"))))
	}
	return strings.Join(parts, ", ")
}

// staleCopy is the age from which a copy of what the hub says is shown with its age.
const staleCopy = 10 * time.Second

// copyNote says that an answer is a cluster's copy of what its hub said, and how old it is.
func (a *commands) copyNote(c *apipb.Cluster) string {
	if a.Now().Sub(c.GetCopiedAt().AsTime()) < staleCopy {
		return "This is the copy of this cluster; the hub answers."
	}
	return "This is the copy of this cluster, " + a.Age(c.GetCopiedAt()) + " old: the hub does not answer, and may know more."
}

// clusterState describes the state of a cluster. The hub offers nothing to a cluster that is damped.
func clusterState(c *apipb.Cluster) string {
	word := c.GetState()
	if c.GetUnreachableSince() != nil && word != "unreachable" && c.GetJoinedAt() != nil && word != "dead" && word != "left" {
		word += ", unreachable"
	}
	if c.GetDamped() {
		word += ", flapping"
	}
	if c.GetUnlisted() {
		word += ", unlisted"
	}
	if c.GetStopsJobs() {
		word += ", stops jobs"
	}
	return output.Clean(word)
}

func (a *commands) clusterGetCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "get CLUSTER", Short: "Show one cluster of this hub, or of the hub that this cluster has joined", Example: "  ares cluster get east", Args: command.ExactArgs("CLUSTER"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Cluster(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeCluster(w, m.(*apipb.Cluster)) })
		}),
	})
}

func (a *commands) writeCluster(w io.Writer, c *apipb.Cluster) {
	s := output.NewSheet(w)
	s.Line("Cluster", c.GetName())
	s.Line("State", fmt.Sprintf("%s for %s", clusterState(c), a.Age(cmp.Or(c.GetUnreachableSince(), c.GetStateSince()))))
	if c.GetChangedBy() != "" {
		s.Line("Changed by", strings.TrimSuffix(c.GetChangedBy()+": "+c.GetReason(), ": "))
	}
	if c.GetRefused() != "" {
		s.Line("Refused", fmt.Sprintf("%s ago: %s", a.Age(c.GetRefusedAt()), c.GetRefused()))
	}
	if c.GetDamped() {
		s.Line("Offers", fmt.Sprintf("held back: its connection was lost too often (%.0f points)", c.GetPenalty()))
	}
	if c.GetUnlisted() {
		s.Line("Offers", "held back until another cluster, or history, has stored its name")
	}
	s.Line("Region", c.GetRegion())
	s.Line("Labels", output.Pairs(c.GetLabels()))
	if c.GetCopiedAt() == nil {
		s.Line("Jobs", jobsLeft(c))
	}
	if d := c.GetDescription(); d != nil {
		s.Line("Nodes", fmt.Sprintf("%d, with %s and %d MB of memory", d.GetNodes(), output.Count(d.GetCpuCores(), "CPU core"), d.GetMemoryMb()))
		s.Line("GPUs", gpuCounts(d))
		s.Line("Server", d.GetServer())
	}
	var prices []string
	for _, model := range slices.Sorted(maps.Keys(c.GetPrices())) {
		prices = append(prices, fmt.Sprintf("%s %g", model, float64(c.GetPrices()[model])/1e6))
	}
	s.Line("Price of a GPU-hour", strings.Join(prices, ", "))
	s.Line("Version", c.GetVersion())
	if c.GetJoinedAt() != nil {
		s.Line("Joined", a.Age(c.GetJoinedAt())+" ago")
	}
	s.List("Federated tenants", c.GetFederatedTenants())
	s.List("Local tenants", c.GetLocalTenants())
	s.List("Loans by tenant", loanText(c.GetLoans(), (*apipb.TenantLoan).GetTenantId))
	s.Line("Store", c.GetStoreId())
	if c.GetCopiedAt() != nil {
		output.Printf(w, "%s\n", a.copyNote(c))
	}
}

// jobsLeft says how many jobs a cluster owns and, during a drain, what becomes of them.
func jobsLeft(c *apipb.Cluster) string {
	n, stay := c.GetJobs(), c.GetStayingJobs()
	text := strconv.Itoa(int(n))
	if c.GetStopsJobs() && n > stay {
		text += fmt.Sprintf("; %d to be stopped and returned", n-stay)
	}
	if stay > 0 {
		text += fmt.Sprintf("; %d cannot move to another cluster (at_most_once jobs that were placed, arrays that have started)", stay)
	}
	return text
}

func (a *commands) clusterCordonCommand() *cobra.Command {
	var o output.Flags
	var reason string
	c := &cobra.Command{
		Use: "cordon CLUSTER", Short: "Offer no more jobs to a cluster; it keeps those that it owns", Example: "  ares cluster cordon east", Args: command.ExactArgs("CLUSTER"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			m, err := c.CordonCluster(ctx, args[0], reason)
			return a.printCluster(&o, m, err)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason; \"ares cluster get\" shows it to every user")
	o.AddOutput(c)
	return c
}

func (a *commands) clusterUncordonCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "uncordon CLUSTER", Short: "Offer jobs to a cordoned or drained cluster again", Example: "  ares cluster uncordon east", Args: command.ExactArgs("CLUSTER"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			m, err := c.UncordonCluster(ctx, args[0])
			return a.printCluster(&o, m, err)
		}),
	}
	o.AddOutput(c)
	return c
}

func (a *commands) clusterDrainCommand() *cobra.Command {
	var o output.Flags
	var reason string
	var stop, yes bool
	c := &cobra.Command{
		Use: "drain CLUSTER", Short: "Cordon a cluster and let it return the jobs that wait there", Args: command.ExactArgs("CLUSTER"),
		Long: `Cordon a cluster and ask it to return the jobs that wait there; the hub offers them to other
clusters. Jobs that run there run to their end. "ares cluster get" shows how many jobs are left.
When it shows 0 jobs, the cluster can leave.

With --stop, the jobs that run there are stopped too, with their grace period, and run in other
clusters: from their last checkpoint, or from the beginning. That does not count against their
retries. An at_most_once job that was placed, and an array whose elements have started, are not
moved: they run to their end, and "ares cluster get" counts them. With --stop, the command asks for
confirmation; without a terminal, it needs --yes.`,
		Example: "  ares cluster drain east --reason 'the building closes'\n  ares cluster drain east --stop --yes",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if stop && !yes {
				was, err := c.Cluster(ctx, args[0])
				if err != nil {
					return err
				}
				if err = a.confirmCluster(ctx, was, "stop the jobs of the hub in cluster %s", "What they have not saved in a checkpoint is lost."); err != nil {
					return err
				}
			}
			m, err := c.DrainCluster(ctx, args[0], reason, stop)
			return a.printCluster(&o, m, err)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason; \"ares cluster get\" shows it to every user")
	c.Flags().BoolVar(&stop, "stop", false, "also stop the jobs that run there, so that they run in other clusters")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	o.AddOutput(c)
	return c
}

func (a *commands) clusterDeadCommand() *cobra.Command {
	var o output.Flags
	var reason string
	var yes bool
	c := &cobra.Command{
		Use: "declare-dead CLUSTER", Short: "Release the jobs of the hub from a cluster that is gone for good", Args: command.ExactArgs("CLUSTER"),
		Long: `Release the jobs of the hub from a cluster that is gone for good. Jobs that the cluster owned wait
again and are offered to other clusters; an at_most_once job ends as lost.

Do not declare a cluster dead because it cannot be reached: it may go on running its jobs, and
then the same job runs in two clusters at once. Make sure that its machines are off. The command
asks for confirmation; without a terminal, it needs --yes.

If the cluster comes back, it stops these jobs, its reports about them are refused, and it is ready
again. A cluster with a new store joins with a new token ("ares cluster register"). To keep a
cluster out, run "ares cluster leave CLUSTER" at the hub.`,
		Example: "  ares cluster declare-dead east --reason 'fire in the building'",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			was, err := c.Cluster(ctx, args[0])
			if err != nil {
				return err
			}
			if !yes {
				if err = a.confirmCluster(ctx, was, "declare cluster %s dead", "If its machines still run, its jobs may run twice."); err != nil {
					return err
				}
			}
			m, err := c.DeclareClusterDead(ctx, args[0], reason)
			return a.printCluster(&o, m, err)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason; \"ares cluster get\" shows it to every user")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	o.AddOutput(c)
	return c
}

// confirmCluster asks the user of a terminal to type the name of the cluster. The texts say what the command does to the cluster
// and why that is dangerous.
func (a *commands) confirmCluster(ctx context.Context, c *apipb.Cluster, does, danger string) error {
	in, ok := a.In.(*os.File)
	what := fmt.Sprintf(does+" (%s, %s)", output.Clean(c.GetName()), clusterState(c), output.Count(c.GetJobs(), "job"))
	if !ok || !output.IsTerminal(in) {
		return exit.Usagef("would %s. Without a terminal, confirm with --yes", what)
	}
	output.Printf(a.Err, "This would %s. %s\nType the name of the cluster to confirm: ", what, danger)
	line := make(chan string, 1)
	go func() { // it ends with the program: a read from a terminal cannot be interrupted
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case <-ctx.Done():
		return &exit.Error{Code: exit.Interrupted}
	case text := <-line:
		if strings.TrimSpace(text) == c.GetName() {
			return nil
		}
		output.Printf(a.Err, "nothing is changed\n")
		return &exit.Error{Code: exit.Failed}
	}
}

func (a *commands) clusterLeaveCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "leave [CLUSTER]", Short: "End a membership: of this cluster, or of a cluster of this hub", Args: command.MaxOneArg,
		Long: `End a membership. Without a name, the command is for a server of the cluster that leaves its hub.
With a name, it is for a server of the hub.

A cluster can leave when it is cordoned or drained and owns no more jobs of the hub: run
"ares cluster drain CLUSTER" at the hub first. Its other jobs are not affected.`,
		Example: "  ares cluster leave\n  ares cluster leave east --data-dir /var/lib/ares-hub",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 {
				m, err := c.LeaveCluster(ctx, args[0])
				return a.printCluster(&o, m, err)
			}
			if err := c.LeaveHub(ctx); err != nil {
				return err
			}
			return a.PrintValue(o.Format, map[string]any{"left": true}, func(w io.Writer) { output.Printf(w, "this cluster has left its hub\n") })
		}),
	}
	o.AddOutput(c)
	return c
}

func (a *commands) clusterHubCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "hub", Short: "Show the hub that this cluster has joined", Example: "  ares cluster hub", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) {
				m, err := c.Membership(ctx)
				if m == nil {
					m = &apipb.Membership{}
				}
				return m, err
			}, func(w io.Writer, m proto.Message) { a.writeMembership(w, m.(*apipb.Membership)) })
		}),
	})
}

func (a *commands) writeMembership(w io.Writer, m *apipb.Membership) {
	if m.GetName() == "" {
		output.Printf(w, "This cluster has joined no hub. Join one with \"ares join --global HUB --token TOKEN\".\n")
		return
	}
	s := output.NewSheet(w)
	s.Line("Cluster", m.GetName())
	s.Line("Hub", strings.Join(m.GetHub(), ", "))
	s.Line("Mode", m.GetMode())
	s.Line("Certificate ends", a.When(m.GetCertificateExpiresAt()))
}

// joinCommand joins a cluster to a hub.
func (a *commands) joinCommand() *cobra.Command {
	var o output.Flags
	var hubs, federated, local []string
	var token string
	c := &cobra.Command{
		Use: "join", Short: "Join this cluster to a hub", Args: command.ExactArgs(),
		Long: `Join this cluster to a hub, so that jobs submitted to the hub can run here. The command is for a
server of the cluster that joins. The token comes from "ares cluster register" at the hub. It
contains the hash of the hub's certificate authority, so that the hub can be verified.

Jobs that are submitted to this cluster stay here, whether or not the hub can be reached. A tenant
that has the same name at the hub and here must be named: with --federated it is the same tenant,
and the hub's jobs of this tenant may run here; with --local it is another one, and they may not.`,
		Example: "  ares join --global hub.example.com:9090 --token TOKEN --federated default",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			switch {
			case len(hubs) == 0:
				return exit.Usagef("--global is missing: give the gRPC address of the hub, such as --global hub.example.com:9090")
			case cmp.Or(token, os.Getenv("ARES_JOIN_TOKEN")) == "":
				return exit.Usagef("--token is missing: create a token with \"ares cluster register NAME\" at the hub")
			}
			ask := &apipb.JoinHubRequest{Token: cmp.Or(token, os.Getenv("ARES_JOIN_TOKEN")), FederatedTenants: federated, LocalTenants: local}
			for _, h := range hubs {
				ask.Hub = append(ask.Hub, strings.TrimSuffix(strings.TrimPrefix(h, "https://"), "/"))
			}
			m, err := c.JoinHub(ctx, ask)
			if err != nil {
				return err
			}
			return a.Print(&o, m, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "joined %s as cluster %s\n", output.Clean(strings.Join(m.GetHub(), ", ")), output.Clean(m.GetName()))
			})
		}),
	}
	c.Flags().StringSliceVar(&hubs, "global", nil, "gRPC addresses of the hub's servers, HOST:PORT")
	c.Flags().StringVar(&token, "token", "", "join token from \"ares cluster register\" (ARES_JOIN_TOKEN)")
	c.Flags().StringSliceVar(&federated, "federated", nil, "tenants that are the same at the hub and here")
	c.Flags().StringSliceVar(&local, "local", nil, "tenants that are not the hub's tenants of the same name")
	o.AddOutput(c)
	return c
}

func (a *commands) printCluster(o *output.Flags, c *apipb.Cluster, err error) error {
	if err != nil {
		return err
	}
	return a.Print(o, c, func(w io.Writer, _ proto.Message) {
		output.Printf(w, "cluster %s: %s\n", output.Clean(c.GetName()), clusterState(c))
		if c.GetState() == "draining" && c.GetJobs() > 0 {
			output.Printf(w, "jobs left: %s\n", jobsLeft(c))
		}
	})
}
