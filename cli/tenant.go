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

func (a *app) tenantCommand() *cobra.Command {
	return group("tenant", "Manage the groups that share the fleet", "",
		a.tenantCreateCommand(), a.tenantListCommand(), a.tenantGetCommand(), a.tenantUpdateCommand(), a.tenantDeleteCommand())
}

// tenantFlags are the fields of a tenant that have a flag.
type tenantFlags struct {
	file      string
	id        string
	name      string
	number    map[string]*int32
	unlimited bool
	tier      string
	weight    float64
	lightest  float64
	heaviest  float64
	yield     bool
	quotas    []string
	hours     int32
}

// limitFlags are a tenant's limits; those without a default must be given.
var limitFlags = []struct {
	flag, field, usage string
	required           bool
}{
	{"max-gpus", "max_gpus", "GPUs at once", true},
	{"max-gpu-memory-mb", "max_gpu_memory_mb", "GPU memory at once", true},
	{"max-cpu-cores", "max_cpu_cores", "CPU cores at once", true},
	{"max-memory-mb", "max_memory_mb", "memory at once", true},
	{"max-concurrent-jobs", "max_concurrent_jobs", "jobs that run at once", true},
	{"max-pending-jobs", "max_pending_jobs", "jobs that wait at once (default 100000)", false},
}

const lostAfterFlag, lostAfterField = "default-lost-after-seconds", "default_lost_after_seconds"

func (t *tenantFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&t.file, "file", "f", "", "file with the tenant, YAML or JSON; - for standard input")
	f.StringVar(&t.name, "name", "", "name for people")
	t.number = map[string]*int32{}
	for _, l := range limitFlags {
		t.number[l.field] = f.Int32(l.flag, 0, l.usage)
	}
	t.number[lostAfterField] = f.Int32(lostAfterFlag, 0, "how long a silent node keeps its jobs")
	f.StringVar(&t.tier, "priority-tier", "", "highest class its jobs may ask for")
	f.Float64Var(&t.weight, "fair-share-weight", 1, "share of the fleet against other tenants")
	f.Float64Var(&t.lightest, "fair-share-weight-min", 0, "least that its weight comes to as it follows past use; 0 with a max of 0 for a fixed weight")
	f.Float64Var(&t.heaviest, "fair-share-weight-max", 0, "most that its weight comes to as it follows past use")
	f.BoolVar(&t.yield, "allow-preemption", true, "its jobs may preempt others")
	addQuotas(f, &t.quotas)
	f.Int32Var(&t.hours, "gpu-hours", 0, "budget of GPU-hours for a calendar month in UTC; 0 for none")
}

// tenant is what the flags and the file ask for.
func (t *tenantFlags) tenant(a *app, f *pflag.FlagSet) (*apipb.Tenant, error) {
	out := &apipb.Tenant{}
	if t.file != "" {
		if err := a.readMessage(t.file, out); err != nil {
			return nil, err
		}
	}
	m := out.ProtoReflect()
	for _, l := range limitFlags {
		field := m.Descriptor().Fields().ByTextName(l.field)
		if f.Changed(l.flag) {
			m.Set(field, valueOf(*t.number[l.field]))
		} else if t.unlimited && !m.Has(field) {
			m.Set(field, valueOf(int32(ares.Unlimited)))
		}
	}
	if f.Changed(lostAfterFlag) {
		out.DefaultLostAfterSeconds = t.number[lostAfterField]
	}
	if t.id != "" {
		out.Id = t.id
	}
	if f.Changed("name") {
		out.Name = t.name
	}
	if f.Changed("priority-tier") {
		out.PriorityTier = &t.tier
	}
	if f.Changed("fair-share-weight") {
		out.FairShareWeight = &t.weight
	}
	if f.Changed("fair-share-weight-min") {
		out.FairShareWeightMin = &t.lightest
	}
	if f.Changed("fair-share-weight-max") {
		out.FairShareWeightMax = &t.heaviest
	}
	if f.Changed("allow-preemption") {
		out.AllowPreemption = &t.yield
	}
	if f.Changed("gpu-hours") {
		out.GpuHoursPerMonth = &t.hours
	}
	quotas, err := readQuotas(t.quotas)
	if len(quotas) > 0 {
		out.Quotas = quotas
	}
	return out, err
}

// missing names the flags of the limits that a new tenant still needs.
func missing(t *apipb.Tenant) []string {
	var out []string
	m := t.ProtoReflect()
	for _, l := range limitFlags {
		if l.required && !m.Has(m.Descriptor().Fields().ByTextName(l.field)) {
			out = append(out, "--"+l.flag)
		}
	}
	return out
}

func (a *app) tenantCreateCommand() *cobra.Command {
	var t tenantFlags
	var o readFlags
	c := &cobra.Command{
		Use: "create [ID]", Short: "Make a tenant",
		Example: "  ares tenant create vision --name 'Vision team' --max-gpus 16 --max-gpu-memory-mb 200000 --max-cpu-cores 64 --max-memory-mb 500000 --max-concurrent-jobs 20\n" +
			"  ares tenant create sound --max-gpus 16 --unlimited",
		Args: atMostOne,
	}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, args []string) error {
		if len(args) == 1 {
			t.id = args[0]
		}
		ask, err := t.tenant(a, c.Flags())
		if err != nil {
			return err
		}
		if flags := missing(ask); len(flags) > 0 && t.file == "" { // of a file, the server names the fields
			return usagef("a tenant needs its limits: give %s, or --unlimited for no limit where none is given", strings.Join(flags, ", "))
		}
		if ask.GetName() == "" {
			ask.Name = ask.GetId()
		}
		made, err := cl.CreateTenant(ctx, ask)
		if err != nil {
			return err
		}
		return a.print(&o, made, func(w io.Writer, _ proto.Message) { say(w, "%s\n", clean(made.GetId())) })
	})
	t.add(c.Flags())
	c.Flags().BoolVar(&t.unlimited, "unlimited", false, "no limit wherever none is given")
	o.addOutput(c)
	return c
}

func (a *app) tenantListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tenants with what they use", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tenants(ctx) },
				func(w io.Writer, m proto.Message) { a.writeTenants(w, m.(*apipb.ListTenantsResponse)) })
		}),
	})
}

func (a *app) writeTenants(w io.Writer, list *apipb.ListTenantsResponse) {
	t := table{head: []string{"ID", "NAME", "GPUS", "CPU CORES", "MEMORY MB", "RUNNING", "PENDING", "TIER"}}
	for _, x := range list.GetTenants() {
		u := x.GetCurrent()
		t.add(x.GetId(), x.GetName(), of(u.GetGpus(), x.MaxGpus), of(u.GetCpuCores(), x.MaxCpuCores), of(u.GetMemoryMb(), x.MaxMemoryMb),
			of(u.GetRunningJobs(), x.MaxConcurrentJobs), of(u.GetPendingJobs(), x.MaxPendingJobs), firstOf(x.GetPriorityTier(), "-"))
	}
	t.write(w, a.color)
}

// of is use and limit, such as 4/16.
func of(used int32, limit *int32) string {
	if limit == nil {
		return strconv.Itoa(int(used))
	}
	if *limit == ares.Unlimited {
		return fmt.Sprintf("%d/unlimited", used)
	}
	return fmt.Sprintf("%d/%d", used, *limit)
}

func (a *app) tenantGetCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "get TENANT", Short: "Show one tenant", Args: exactly("TENANT"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tenant(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeTenant(w, m.(*apipb.Tenant)) })
		}),
	})
}

func (a *app) writeTenant(w io.Writer, t *apipb.Tenant) {
	s, u := sheet{w}, t.GetCurrent()
	s.line("Tenant", t.GetId())
	s.line("Name", t.GetName())
	s.line("GPUs", of(u.GetGpus(), t.MaxGpus))
	s.line("GPU memory", of(u.GetGpuMemoryMb(), t.MaxGpuMemoryMb)+" MB")
	s.line("CPU cores", of(u.GetCpuCores(), t.MaxCpuCores))
	s.line("Memory", of(u.GetMemoryMb(), t.MaxMemoryMb)+" MB")
	s.line("Running", of(u.GetRunningJobs(), t.MaxConcurrentJobs)+" jobs")
	s.line("Pending", of(u.GetPendingJobs(), t.MaxPendingJobs)+" jobs")
	s.line("Tier", t.GetPriorityTier())
	s.line("Weight", weightWords(t))
	s.line("Preempts", strconv.FormatBool(t.GetAllowPreemption()))
	s.list("Quotas", quotaWords(t.GetQuotas()))
	if t.GetGpuHoursPerMonth() > 0 {
		s.line("Budget", fmt.Sprintf("%.1f of %d GPU-hours of this month used", t.GetGpuHoursThisMonth(), t.GetGpuHoursPerMonth()))
	}
	s.line("Created", a.when(t.GetCreatedAt()))
}

// weightWords is a tenant's weight, with its bounds if it follows past use.
func weightWords(t *apipb.Tenant) string {
	if t.GetFairShareWeightMax() == 0 {
		return fmt.Sprintf("%g", t.GetFairShareWeight())
	}
	return fmt.Sprintf("%g, between %g and %g by past use", t.GetFairShareWeight(), t.GetFairShareWeightMin(), t.GetFairShareWeightMax())
}

func (a *app) tenantUpdateCommand() *cobra.Command {
	var t tenantFlags
	var o readFlags
	var clearQuotas bool
	c := &cobra.Command{Use: "update TENANT", Short: "Change what is given of a tenant, and keep the rest", Args: exactly("TENANT")}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, args []string) error {
		ask, err := t.tenant(a, c.Flags())
		if err != nil {
			return err
		}
		if proto.Size(ask) == 0 && !clearQuotas {
			return usagef("say what to change, such as: ares tenant update %s --max-gpus 32", args[0])
		}
		update := cl.UpdateTenant
		if clearQuotas {
			update = cl.ClearTenantQuotas
		}
		now, err := update(ctx, args[0], ask)
		if err != nil {
			return err
		}
		return a.print(&o, now, func(w io.Writer, _ proto.Message) { a.writeTenant(w, now) })
	})
	t.add(c.Flags())
	c.Flags().BoolVar(&clearQuotas, "clear-quotas", false, "remove all quotas")
	o.addOutput(c)
	return c
}

func (a *app) tenantDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete TENANT", Short: "Remove a tenant that has no live jobs", Args: exactly("TENANT"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeleteTenant(ctx, args[0]); err != nil {
				return err
			}
			say(a.out, "%s deleted\n", clean(args[0]))
			return nil
		}),
	}
}
