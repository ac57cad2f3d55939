package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) queueCommand() *cobra.Command {
	return group("queue", "Manage the queues that jobs wait in",
		`A tenant's queues form a tree: shares and quotas are worked out level by level.
A queue is named TENANT/NAME, or NAME alone for one of the default tenant. Every
tenant has a queue called default.`,
		a.queueCreateCommand(), a.queueListCommand(), a.queueGetCommand(), a.queueUpdateCommand(), a.queueDeleteCommand())
}

// queueFlags are the fields of a queue that have a flag.
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
	f.StringVar(&q.parent, "parent", "", "queue of the same tenant that it is under")
	f.Float64Var(&q.weight, "weight", 1, "share against its siblings")
	q.number = map[string]*int32{}
	for _, l := range limitFlags {
		q.number[l.field] = f.Int32(l.flag, 0, strings.TrimSuffix(l.usage, " (default 100000)")+" (default unlimited)")
	}
	addQuotas(f, &q.quotas)
}

// queue is what the flags and the file ask for.
func (q *queueFlags) queue(a *app, f *pflag.FlagSet, id string) (*apipb.Queue, error) {
	out := &apipb.Queue{}
	if q.file != "" {
		if err := a.readMessage(q.file, out); err != nil {
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
			m.Set(m.Descriptor().Fields().ByTextName(l.field), valueOf(*q.number[l.field]))
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

// queueName splits TENANT/NAME; without a tenant it is the default one.
func queueName(id string) (tenant, name string, err error) {
	tenant, name, ok := strings.Cut(id, "/")
	if !ok {
		tenant, name = ares.DefaultTenant, id
	}
	if tenant == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usagef("%q is not a queue: write TENANT/NAME, or NAME for one of tenant %s", id, ares.DefaultTenant)
	}
	return tenant, name, nil
}

func addQuotas(f *pflag.FlagSet, list *[]string) {
	f.StringArrayVar(list, "quota", nil, "GPUs that are promised, such as h100=16,borrow=8,lend=4, or *=16 for all models; may be repeated")
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
	bad := usagef("--quota %s: write it as h100=16,borrow=8,lend=4, or *=16 for all models; without borrow or lend there is no bound", firstOf(text, `""`))
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

// quotaWords writes quotas for people.
func quotaWords(quotas []*apipb.Quota) []string {
	var out []string
	for _, q := range quotas {
		text := fmt.Sprintf("%s: %d GPUs", firstOf(q.GetGpuModel(), "all models"), q.GetNominalGpus())
		if q.BorrowingLimit == nil {
			text += ", may borrow without bound"
		} else {
			text += fmt.Sprintf(", may borrow %d", q.GetBorrowingLimit())
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

func (a *app) queueCreateCommand() *cobra.Command {
	var q queueFlags
	var o readFlags
	c := &cobra.Command{
		Use: "create [QUEUE]", Short: "Make a queue",
		Example: "  ares queue create vision/training --weight 3 --quota h100=16,borrow=8\n" +
			"  ares queue create vision/night --parent training --max-gpus 8",
		Args: atMostOne,
	}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, args []string) error {
		id := ""
		if len(args) == 1 {
			id = args[0]
		} else if q.file == "" {
			return usagef("name the queue, such as: ares queue create vision/training")
		}
		ask, err := q.queue(a, c.Flags(), id)
		if err != nil {
			return err
		}
		made, err := cl.CreateQueue(ctx, ask)
		if err != nil {
			return err
		}
		return a.print(&o, made, func(w io.Writer, _ proto.Message) { say(w, "%s\n", clean(made.GetId())) })
	})
	q.add(c.Flags())
	o.addOutput(c)
	return c
}

func (a *app) queueListCommand() *cobra.Command {
	var o readFlags
	var tenant string
	c := o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List queues with what their jobs use", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Queues(ctx, tenant) },
				func(w io.Writer, m proto.Message) { a.writeQueues(w, m.(*apipb.ListQueuesResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only queues of this tenant")
	return c
}

func (a *app) writeQueues(w io.Writer, list *apipb.ListQueuesResponse) {
	t := table{head: []string{"QUEUE", "PARENT", "WEIGHT", "GPUS", "CPU CORES", "MEMORY MB", "RUNNING", "PENDING", "QUOTAS"}}
	for _, q := range list.GetQueues() {
		u := q.GetCurrent()
		t.add(q.GetId(), firstOf(q.GetParent(), "-"), fmt.Sprintf("%g", q.GetWeight()), of(u.GetGpus(), q.MaxGpus), of(u.GetCpuCores(), q.MaxCpuCores),
			of(u.GetMemoryMb(), q.MaxMemoryMb), of(u.GetRunningJobs(), q.MaxConcurrentJobs), of(u.GetPendingJobs(), q.MaxPendingJobs),
			strings.Join(quotaWords(q.GetQuotas()), "; "))
	}
	t.write(w, a.color)
}

func (a *app) queueGetCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "get QUEUE", Short: "Show one queue", Args: exactly("QUEUE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, err := queueName(args[0])
			if err != nil {
				return err
			}
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Queue(ctx, tenant, name) },
				func(w io.Writer, m proto.Message) { a.writeQueue(w, m.(*apipb.Queue)) })
		}),
	})
}

func (a *app) writeQueue(w io.Writer, q *apipb.Queue) {
	s, u := sheet{w}, q.GetCurrent()
	s.line("Queue", q.GetId())
	s.line("Parent", q.GetParent())
	s.line("Weight", fmt.Sprintf("%g", q.GetWeight()))
	s.line("GPUs", of(u.GetGpus(), q.MaxGpus))
	s.line("GPU memory", of(u.GetGpuMemoryMb(), q.MaxGpuMemoryMb)+" MB")
	s.line("CPU cores", of(u.GetCpuCores(), q.MaxCpuCores))
	s.line("Memory", of(u.GetMemoryMb(), q.MaxMemoryMb)+" MB")
	s.line("Running", of(u.GetRunningJobs(), q.MaxConcurrentJobs)+" jobs")
	s.line("Pending", of(u.GetPendingJobs(), q.MaxPendingJobs)+" jobs")
	s.list("Quotas", quotaWords(q.GetQuotas()))
	if q.GetCreatedAt() != nil {
		s.line("Created", a.when(q.GetCreatedAt()))
	}
}

func (a *app) queueUpdateCommand() *cobra.Command {
	var q queueFlags
	var o readFlags
	var clearQuotas bool
	c := &cobra.Command{Use: "update QUEUE", Short: "Change what is given of a queue, and keep the rest", Args: exactly("QUEUE")}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, args []string) error {
		ask, err := q.queue(a, c.Flags(), args[0])
		if err != nil {
			return err
		}
		said := proto.CloneOf(ask)
		if said.TenantId, said.Name = "", ""; proto.Size(said) == 0 && !clearQuotas {
			return usagef("say what to change, such as: ares queue update %s --weight 2", args[0])
		}
		now, err := cl.UpdateQueue(ctx, ask, clearQuotas)
		if err != nil {
			return err
		}
		return a.print(&o, now, func(w io.Writer, _ proto.Message) { a.writeQueue(w, now) })
	})
	q.add(c.Flags())
	c.Flags().BoolVar(&clearQuotas, "clear-quotas", false, "remove all quotas")
	o.addOutput(c)
	return c
}

func (a *app) queueDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete QUEUE", Short: "Remove a queue without live jobs and without queues under it", Args: exactly("QUEUE"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, err := queueName(args[0])
			if err != nil {
				return err
			}
			if err := c.DeleteQueue(ctx, tenant, name); err != nil {
				return err
			}
			say(a.out, "%s deleted\n", clean(ares.QueueID(tenant, name)))
			return nil
		}),
	}
}

func (a *app) fairnessCommand() *cobra.Command {
	var o readFlags
	var tenant string
	c := o.add(&cobra.Command{
		Use: "fairness", Short: "See who holds how much of the fleet against what is theirs", Args: exactly(),
		Long: `Shows for each tenant and each of its queues the part of the fleet it holds of the
resource it holds most of, the same for what it used before, and both together divided
by its weight: whoever has least of that is served first. Jain's index is 1 when all
tenants that hold or want something have the same.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Fairness(ctx, tenant) },
				func(w io.Writer, m proto.Message) { a.writeFairness(w, m.(*apipb.GetFairnessResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only this tenant and its queues")
	return c
}

// effectiveWeight is a weight, with what it comes to where that is another.
func effectiveWeight(s *apipb.FairShare) string {
	if now := s.GetEffectiveWeight(); now != 0 && now != s.GetWeight() {
		return fmt.Sprintf("%g (now %g)", s.GetWeight(), now)
	}
	return fmt.Sprintf("%g", s.GetWeight())
}

func (a *app) writeFairness(w io.Writer, f *apipb.GetFairnessResponse) {
	percent := func(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }
	t := table{head: []string{"TENANT", "QUEUE", "WEIGHT", "GPUS", "CPU CORES", "MEMORY MB", "WAITING", "SHARE", "OF", "PAST", "WEIGHTED"}}
	for _, s := range f.GetShares() {
		t.add(s.GetTenantId(), firstOf(s.GetQueue(), "*"), effectiveWeight(s), fmt.Sprintf("%g", s.GetGpus()),
			strconv.Itoa(int(s.GetCpuCores())), strconv.Itoa(int(s.GetMemoryMb())), strconv.Itoa(int(s.GetWaitingJobs())),
			percent(s.GetDominantShare()), firstOf(s.GetResource(), "-"), percent(s.GetPastShare()), percent(s.GetWeightedShare()))
	}
	t.write(w, a.color)
	say(w, "\nJain's index %.3f\n", f.GetJainIndex())
}
