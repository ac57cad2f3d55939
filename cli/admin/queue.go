package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) queueCommand() *cobra.Command {
	return command.Group("queue", "Manage queues", "  ares queue list",
		`A queue can have child queues. Shares and quotas are computed level by level: first for tenants,
then for their queues, then for child queues. The full name of a queue is TENANT/NAME. NAME
alone means a queue of the tenant "default". Every tenant has a queue called default.`,
		a.queueCreateCommand(), a.queueListCommand(), a.queueGetCommand(), a.queueUpdateCommand(), a.queueDeleteCommand())
}

// queueFlags are the flags that set fields of a queue.
type queueFlags struct {
	file   string
	parent string
	weight float64
	number map[string]*int32
	quotas []string
}

func (q *queueFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&q.file, "file", "f", "", "file with the queue, YAML or JSON; - for standard input")
	f.StringVar(&q.parent, "parent", "", "parent queue, of the same tenant")
	f.Float64Var(&q.weight, "weight", 1, "weight relative to sibling queues")
	q.number = map[string]*int32{}
	for _, l := range limitFlags {
		q.number[l.field] = f.Int32(l.flag, 0, strings.TrimSuffix(l.usage, " (default 100000)")+" (default unlimited)")
	}
	addQuotas(f, &q.quotas)
}

// The method `queue` builds the queue that the file and the flags describe.
func (q *queueFlags) queue(a *commands, f *pflag.FlagSet, id string) (*apipb.Queue, error) {
	out := &apipb.Queue{}
	if q.file != "" {
		if err := a.ReadMessage(q.file, out); err != nil {
			return nil, err
		}
	}
	if id != "" {
		var err error
		if out.TenantId, out.Name, err = queueName(id); err != nil {
			return nil, err
		}
	}
	m := out.ProtoReflect()
	for _, l := range limitFlags {
		if f.Changed(l.flag) {
			m.Set(m.Descriptor().Fields().ByTextName(l.field), protoreflect.ValueOf(*q.number[l.field]))
		}
	}
	if f.Changed("parent") {
		out.Parent = &q.parent
	}
	if f.Changed("weight") {
		out.Weight = &q.weight
	}
	quotas, err := readQuotas(q.quotas)
	if len(quotas) > 0 {
		out.Quotas = quotas
	}
	return out, err
}

// queueName splits TENANT/NAME. A queue name without a tenant refers to the default tenant.
func queueName(id string) (tenant, name string, err error) {
	tenant, name, ok := strings.Cut(id, "/")
	if !ok {
		tenant, name = ares.DefaultTenant, id
	}
	if tenant == "" || name == "" || strings.Contains(name, "/") {
		return "", "", exit.Usagef("%q is not a queue: use TENANT/NAME, or NAME for a queue of tenant %s", id, ares.DefaultTenant)
	}
	return tenant, name, nil
}

func addQuotas(f *pflag.FlagSet, list *[]string) {
	f.StringArrayVar(list, "quota", nil, "quota of GPUs, such as h100=16,borrow=8,lend=4, or *=16 for all models; may be repeated")
}

// readQuotas reads MODEL=GPUS[,borrow=GPUS][,lend=GPUS].
func readQuotas(list []string) ([]*apipb.Quota, error) {
	var out []*apipb.Quota
	for _, text := range list {
		q, err := readQuota(text)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

func readQuota(text string) (*apipb.Quota, error) {
	bad := exit.Usagef("--quota %s: use h100=16,borrow=8,lend=4, or *=16 for all models; without borrow or lend there is no limit", cmp.Or(text, `""`))
	q := &apipb.Quota{}
	for i, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseInt(value, 10, 32)
		if !ok || key == "" || err != nil {
			return nil, bad
		}
		switch {
		case i == 0 && key != "*":
			q.GpuModel, q.NominalGpus = key, int32(n)
		case i == 0:
			q.NominalGpus = int32(n)
		case key == "borrow" && q.BorrowingLimit == nil:
			q.BorrowingLimit = new(int32(n))
		case key == "lend" && q.LendingLimit == nil:
			q.LendingLimit = new(int32(n))
		default:
			return nil, bad
		}
	}
	return q, nil
}

// quotaText describes quotas, with one line for each quota.
func quotaText(quotas []*apipb.Quota) []string {
	var out []string
	for _, q := range quotas {
		text := fmt.Sprintf("%s: %d GPUs", cmp.Or(q.GetGpuModel(), "all models"), q.GetNominalGpus())
		if q.BorrowingLimit == nil {
			text += ", borrows without limit"
		} else {
			text += fmt.Sprintf(", borrows up to %d", q.GetBorrowingLimit())
		}
		if q.LendingLimit == nil {
			text += ", lends all"
		} else {
			text += fmt.Sprintf(", lends %d", q.GetLendingLimit())
		}
		out = append(out, text)
	}
	return out
}

func (a *commands) queueCreateCommand() *cobra.Command {
	var q queueFlags
	var o output.Flags
	c := &cobra.Command{
		Use: "create [QUEUE]", Short: "Create a queue",
		Example: "  ares queue create vision/training --weight 3 --quota h100=16,borrow=8\n" +
			"  ares queue create vision/night --parent training --max-gpus 8",
		Args: command.MaxOneArg,
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		id := ""
		if len(args) == 1 {
			id = args[0]
		} else if q.file == "" {
			return exit.Usagef("QUEUE is missing: ares queue create vision/training")
		}
		ask, err := q.queue(a, c.Flags(), id)
		if err != nil {
			return err
		}
		made, err := cl.CreateQueue(ctx, ask)
		if err != nil {
			return err
		}
		return a.Print(&o, made, func(w io.Writer, _ proto.Message) { output.Printf(w, "%s\n", output.Clean(made.GetId())) })
	})
	q.add(c.Flags())
	o.AddOutput(c)
	return c
}

func (a *commands) queueListCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List queues with the usage of their jobs", Example: "  ares queue list --tenant-id vision", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Queues(ctx, tenant) },
				func(m proto.Message) *output.Table { return a.queueTable(m.(*apipb.ListQueuesResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only queues of this tenant")
	return c
}

func (a *commands) queueTable(list *apipb.ListQueuesResponse) *output.Table {
	t := &output.Table{Head: []string{"QUEUE", "PARENT", "WEIGHT", "GPUS", "CPU CORES", "MEMORY MB", "RUNNING", "PENDING", "QUOTAS"},
		Drop: []string{"PARENT", "WEIGHT", "MEMORY MB", "CPU CORES", "QUOTAS", "PENDING", "RUNNING"}}
	for _, q := range list.GetQueues() {
		u := q.GetCurrent()
		t.Add(q.GetId(), cmp.Or(q.GetParent(), "-"), fmt.Sprintf("%g", q.GetWeight()), of(u.GetGpus(), q.MaxGpus), of(u.GetCpuCores(), q.MaxCpuCores),
			of(u.GetMemoryMb(), q.MaxMemoryMb), of(u.GetRunningJobs(), q.MaxConcurrentJobs), of(u.GetPendingJobs(), q.MaxPendingJobs),
			strings.Join(quotaText(q.GetQuotas()), "; "))
	}
	return t
}

func (a *commands) queueGetCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "get QUEUE", Short: "Show one queue", Example: "  ares queue get vision/training", Args: command.ExactArgs("QUEUE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, err := queueName(args[0])
			if err != nil {
				return err
			}
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Queue(ctx, tenant, name) },
				func(w io.Writer, m proto.Message) { a.writeQueue(w, m.(*apipb.Queue)) })
		}),
	})
}

func (a *commands) writeQueue(w io.Writer, q *apipb.Queue) {
	s, u := output.NewSheet(w), q.GetCurrent()
	s.Line("Queue", q.GetId())
	s.Line("Parent", q.GetParent())
	s.Line("Weight", fmt.Sprintf("%g", q.GetWeight()))
	s.Line("GPUs", of(u.GetGpus(), q.MaxGpus))
	s.Line("GPU memory", of(u.GetGpuMemoryMb(), q.MaxGpuMemoryMb)+" MB")
	s.Line("CPU cores", of(u.GetCpuCores(), q.MaxCpuCores))
	s.Line("Memory", of(u.GetMemoryMb(), q.MaxMemoryMb)+" MB")
	s.Line("Running", of(u.GetRunningJobs(), q.MaxConcurrentJobs)+" jobs")
	s.Line("Pending", of(u.GetPendingJobs(), q.MaxPendingJobs)+" jobs")
	s.List("Quotas", quotaText(q.GetQuotas()))
	if q.GetCreatedAt() != nil {
		s.Line("Created", a.When(q.GetCreatedAt()))
	}
}

func (a *commands) queueUpdateCommand() *cobra.Command {
	var q queueFlags
	var o output.Flags
	var clearQuotas bool
	c := &cobra.Command{Use: "update QUEUE", Short: "Change some settings of a queue", Example: "  ares queue update vision/training --weight 2", Args: command.ExactArgs("QUEUE")}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		ask, err := q.queue(a, c.Flags(), args[0])
		if err != nil {
			return err
		}
		said := proto.CloneOf(ask)
		if said.TenantId, said.Name = "", ""; proto.Size(said) == 0 && !clearQuotas {
			return exit.Usagef("nothing to change: add a flag, such as: ares queue update %s --weight 2", args[0])
		}
		now, err := cl.UpdateQueue(ctx, ask, clearQuotas)
		if err != nil {
			return err
		}
		return a.Print(&o, now, func(w io.Writer, _ proto.Message) { a.writeQueue(w, now) })
	})
	q.add(c.Flags())
	c.Flags().BoolVar(&clearQuotas, "clear-quotas", false, "remove all quotas")
	o.AddOutput(c)
	return c
}

func (a *commands) queueDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete QUEUE", Short: "Delete a queue that has no live jobs and no child queues", Example: "  ares queue delete vision/night", Args: command.ExactArgs("QUEUE"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, err := queueName(args[0])
			if err != nil {
				return err
			}
			if err := c.DeleteQueue(ctx, tenant, name); err != nil {
				return err
			}
			output.Printf(a.Out, "%s deleted\n", output.Clean(ares.QueueID(tenant, name)))
			return nil
		}),
	}
}

func (a *commands) fairnessCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := o.AddList(&cobra.Command{
		Use: "fairness", Short: "Show the share and the fair share of each tenant", Example: "  ares fairness", Args: command.ExactArgs(),
		Long: `For each tenant and queue, show the dominant share, the past usage, and the weighted share. To
get the weighted share, Ares adds the past usage to the dominant share and divides the sum by
the weight. Ares serves the tenant with the lowest weighted share first. Jain's index of
fairness is 1 when all active tenants have the same weighted share.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Fairness(ctx, tenant) },
				func(m proto.Message) *output.Table { return fairnessTable(m.(*apipb.GetFairnessResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only this tenant and its queues")
	return c
}

// effectiveWeight formats a configured weight, followed by the effective weight if the two differ.
func effectiveWeight(s *apipb.FairShare) string {
	if now := s.GetEffectiveWeight(); now != 0 && now != s.GetWeight() {
		return fmt.Sprintf("%g (now %g)", s.GetWeight(), now)
	}
	return fmt.Sprintf("%g", s.GetWeight())
}

func fairnessTable(f *apipb.GetFairnessResponse) *output.Table {
	percent := func(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }
	t := &output.Table{
		Head: []string{"TENANT", "QUEUE", "WEIGHT", "GPUS", "CPU CORES", "MEMORY MB", "WAITING", "SHARE", "OF", "PAST", "WEIGHTED"},
		Drop: []string{"MEMORY MB", "CPU CORES", "PAST", "OF", "WEIGHT", "WAITING", "WEIGHTED"}, Flex: []string{},
	}
	for _, s := range f.GetShares() {
		t.Add(s.GetTenantId(), cmp.Or(s.GetQueue(), "*"), effectiveWeight(s), fmt.Sprintf("%g", s.GetGpus()),
			strconv.Itoa(int(s.GetCpuCores())), strconv.Itoa(int(s.GetMemoryMb())), strconv.Itoa(int(s.GetWaitingJobs())),
			percent(s.GetDominantShare()), cmp.Or(s.GetResource(), "-"), percent(s.GetPastShare()), percent(s.GetWeightedShare()))
	}
	if jain := f.GetJainIndex(); jain > 0 { // a tenant is not told
		t.Note = fmt.Sprintf("\nJain's index %.3f", jain)
	}
	return t
}
