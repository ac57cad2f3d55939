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

func (a *commands) tenantCommand() *cobra.Command {
	return command.Group("tenant", "Manage tenants", "  ares tenant list", "",
		a.tenantCreateCommand(), a.tenantListCommand(), a.tenantGetCommand(), a.tenantUpdateCommand(), a.tenantDeleteCommand())
}

// tenantFlags are the flags that set fields of a tenant.
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

// limitFlags are the flags for a tenant's limits. When a tenant is created, each limit
// without a default must be set.
var limitFlags = []struct {
	flag, field, usage string
	required           bool
}{
	{"max-gpus", "max_gpus", "maximum number of GPUs in use at once", true},
	{"max-gpu-memory-mb", "max_gpu_memory_mb", "maximum GPU memory in use at once", true},
	{"max-cpu-cores", "max_cpu_cores", "maximum number of CPU cores in use at once", true},
	{"max-memory-mb", "max_memory_mb", "maximum memory in use at once", true},
	{"max-concurrent-jobs", "max_concurrent_jobs", "maximum number of running jobs", true},
	{"max-pending-jobs", "max_pending_jobs", "maximum number of waiting jobs (default 100000)", false},
}

const lostAfterFlag, lostAfterField = "default-lost-after-seconds", "default_lost_after_seconds"

func (t *tenantFlags) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&t.file, "file", "f", "", "file with the tenant, YAML or JSON; - for standard input")
	f.StringVar(&t.name, "name", "", "display name")
	t.number = map[string]*int32{}
	for _, l := range limitFlags {
		t.number[l.field] = f.Int32(l.flag, 0, l.usage)
	}
	t.number[lostAfterField] = f.Int32(lostAfterFlag, 0, "time after which jobs on an unreachable node are placed elsewhere")
	f.StringVar(&t.tier, "priority-tier", "", "highest priority class that the tenant's jobs may have")
	f.Float64Var(&t.weight, "fair-share-weight", 1, "fair-share weight relative to other tenants")
	f.Float64Var(&t.lightest, "fair-share-weight-min", 0, "lowest weight when Ares adjusts the weight to past usage; set min and max to 0 for a fixed weight")
	f.Float64Var(&t.heaviest, "fair-share-weight-max", 0, "highest weight when Ares adjusts the weight to past usage")
	f.BoolVar(&t.yield, "allow-preemption", true, "the tenant's jobs may preempt other jobs")
	addQuotas(f, &t.quotas)
	f.Int32Var(&t.hours, "gpu-hours", 0, "budget of GPU-hours per calendar month in UTC; 0 for no budget")
}

// The method `tenant` builds the tenant that the file and the flags describe.
func (t *tenantFlags) tenant(a *commands, f *pflag.FlagSet) (*apipb.Tenant, error) {
	out := &apipb.Tenant{}
	if t.file != "" {
		if err := a.ReadMessage(t.file, out); err != nil {
			return nil, err
		}
	}
	m := out.ProtoReflect()
	for _, l := range limitFlags {
		field := m.Descriptor().Fields().ByTextName(l.field)
		if f.Changed(l.flag) {
			m.Set(field, protoreflect.ValueOf(*t.number[l.field]))
		} else if t.unlimited && !m.Has(field) {
			m.Set(field, protoreflect.ValueOf(int32(ares.Unlimited)))
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

// The function `missing` lists the flags of required limits that the tenant does not have.
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

func (a *commands) tenantCreateCommand() *cobra.Command {
	var t tenantFlags
	var o output.Flags
	c := &cobra.Command{
		Use: "create [ID]", Short: "Create a tenant",
		Example: "  ares tenant create vision --name 'Vision team' --max-gpus 16 --max-gpu-memory-mb 200000 --max-cpu-cores 64 --max-memory-mb 500000 --max-concurrent-jobs 20\n" +
			"  ares tenant create sound --max-gpus 16 --unlimited",
		Args: command.MaxOneArg,
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		if len(args) == 1 {
			t.id = args[0]
		}
		ask, err := t.tenant(a, c.Flags())
		if err != nil {
			return err
		}
		if flags := missing(ask); len(flags) > 0 && t.file == "" { // for a file, the server reports the missing fields
			return exit.Usagef("limits are missing: add %s, or --unlimited", strings.Join(flags, ", "))
		}
		if ask.GetName() == "" {
			ask.Name = ask.GetId()
		}
		made, err := cl.CreateTenant(ctx, ask)
		if err != nil {
			return err
		}
		return a.Print(&o, made, func(w io.Writer, _ proto.Message) { output.Printf(w, "%s\n", output.Clean(made.GetId())) })
	})
	t.add(c.Flags())
	c.Flags().BoolVar(&t.unlimited, "unlimited", false, "do not limit resources for which no flag sets a limit")
	o.AddOutput(c)
	return c
}

func (a *commands) tenantListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tenants with their usage", Example: "  ares tenant list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tenants(ctx) },
				func(m proto.Message) *output.Table { return a.tenantTable(m.(*apipb.ListTenantsResponse)) })
		}),
	})
}

func (a *commands) tenantTable(list *apipb.ListTenantsResponse) *output.Table {
	t := &output.Table{Head: []string{"ID", "NAME", "GPUS", "CPU CORES", "MEMORY MB", "RUNNING", "PENDING", "TIER"},
		Drop: []string{"TIER", "MEMORY MB", "CPU CORES", "NAME", "PENDING", "RUNNING"}, Flex: []string{"NAME"}}
	for _, x := range list.GetTenants() {
		u := x.GetCurrent()
		t.Add(x.GetId(), x.GetName(), of(u.GetGpus(), x.MaxGpus), of(u.GetCpuCores(), x.MaxCpuCores), of(u.GetMemoryMb(), x.MaxMemoryMb),
			of(u.GetRunningJobs(), x.MaxConcurrentJobs), of(u.GetPendingJobs(), x.MaxPendingJobs), cmp.Or(x.GetPriorityTier(), "-"))
	}
	return t
}

// The function `of` formats a usage and its limit, for example as 4/16. If there is no limit, older
// servers send the value ares.Unlimited and newer servers send no value.
func of(used int32, limit *int32) string {
	if limit == nil || *limit == ares.Unlimited {
		return fmt.Sprintf("%d/unlimited", used)
	}
	return fmt.Sprintf("%d/%d", used, *limit)
}

func (a *commands) tenantGetCommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "get TENANT", Short: "Show one tenant", Example: "  ares tenant get vision", Args: command.ExactArgs("TENANT"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tenant(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeTenant(w, m.(*apipb.Tenant)) })
		}),
	})
}

func (a *commands) writeTenant(w io.Writer, t *apipb.Tenant) {
	s, u := output.NewSheet(w), t.GetCurrent()
	s.Line("Tenant", t.GetId())
	s.Line("Name", t.GetName())
	s.Line("GPUs", of(u.GetGpus(), t.MaxGpus))
	if t.HubLoanGpus != nil {
		s.Line("Loan", fmt.Sprintf("up to %s GPUs in this cluster, of %s in all clusters", limitText(t.HubLoanGpus), limitText(t.HubMaxGpus)))
	}
	if t.HubLoanGpuHours != nil {
		s.Line("Lent hours", fmt.Sprintf("%.1f GPU-hours a month in this cluster, of %d in all clusters", t.GetHubLoanGpuHours(), t.GetHubGpuHoursPerMonth()))
	}
	s.List("Loans", loanText(t.GetLoans(), (*apipb.TenantLoan).GetCluster))
	s.Line("GPU memory", of(u.GetGpuMemoryMb(), t.MaxGpuMemoryMb)+" MB")
	s.Line("CPU cores", of(u.GetCpuCores(), t.MaxCpuCores))
	s.Line("Memory", of(u.GetMemoryMb(), t.MaxMemoryMb)+" MB")
	s.Line("Running", of(u.GetRunningJobs(), t.MaxConcurrentJobs)+" jobs")
	s.Line("Pending", of(u.GetPendingJobs(), t.MaxPendingJobs)+" jobs")
	s.Line("Tier", t.GetPriorityTier())
	s.Line("Weight", weightText(t))
	s.Line("Preempts", strconv.FormatBool(t.GetAllowPreemption()))
	s.List("Quotas", quotaText(t.GetQuotas()))
	if t.GetGpuHoursPerMonth() > 0 {
		s.Line("Budget", fmt.Sprintf("%.1f of %d GPU-hours of this month used", t.GetGpuHoursThisMonth(), t.GetGpuHoursPerMonth()))
	} else if t.GpuHoursThisMonth != nil {
		s.Line("Used", fmt.Sprintf("%.1f GPU-hours in this month", t.GetGpuHoursThisMonth()))
	}
	if t.GetHubTenant() {
		s.Line("Hub decides", "name, tier, weight and preemption")
	}
	s.Line("Created", a.When(t.GetCreatedAt()))
}

func limitText(limit *int32) string {
	if limit == nil {
		return "unlimited"
	}
	return strconv.Itoa(int(*limit))
}

// loanText describes loans. The function `name` returns what a loan is called.
func loanText(loans []*apipb.TenantLoan, name func(*apipb.TenantLoan) string) (out []string) {
	for _, l := range loans {
		var parts []string
		if l.Gpus != nil || l.Limit != nil || l.GpuHours == nil && l.GpuHoursUsed == nil {
			text := "up to " + limitText(l.Gpus) + " GPUs"
			if l.Limit != nil && (l.Gpus == nil || l.GetLimit() < l.GetGpus()) {
				text += ", being lowered to " + limitText(l.Limit)
			}
			parts = append(parts, text)
		}
		if l.GpuHours != nil {
			text := fmt.Sprintf("%.1f of %.1f GPU-hours of this month used", l.GetGpuHoursUsed(), l.GetGpuHours())
			if l.GetGpuHoursLimit() < l.GetGpuHours() {
				text += fmt.Sprintf(", being lowered to %.1f", l.GetGpuHoursLimit())
			}
			parts = append(parts, text)
		} else if l.GpuHoursUsed != nil {
			parts = append(parts, fmt.Sprintf("%.1f GPU-hours of this month used", l.GetGpuHoursUsed()))
		}
		out = append(out, name(l)+": "+strings.Join(parts, "; "))
	}
	return out
}

// weightText describes a tenant's weight. If the weight depends on past usage, the text includes
// the weight's bounds.
func weightText(t *apipb.Tenant) string {
	if t.GetFairShareWeightMax() == 0 {
		return fmt.Sprintf("%g", t.GetFairShareWeight())
	}
	return fmt.Sprintf("%g, between %g and %g by past usage", t.GetFairShareWeight(), t.GetFairShareWeightMin(), t.GetFairShareWeightMax())
}

func (a *commands) tenantUpdateCommand() *cobra.Command {
	var t tenantFlags
	var o output.Flags
	var clearQuotas bool
	c := &cobra.Command{Use: "update TENANT", Short: "Change some settings of a tenant", Example: "  ares tenant update vision --max-gpus 32", Args: command.ExactArgs("TENANT")}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, args []string) error {
		ask, err := t.tenant(a, c.Flags())
		if err != nil {
			return err
		}
		if proto.Size(ask) == 0 && !clearQuotas {
			return exit.Usagef("nothing to change: add a flag, such as: ares tenant update %s --max-gpus 32", args[0])
		}
		update := cl.UpdateTenant
		if clearQuotas {
			update = cl.ClearTenantQuotas
		}
		now, err := update(ctx, args[0], ask)
		if err != nil {
			return err
		}
		return a.Print(&o, now, func(w io.Writer, _ proto.Message) { a.writeTenant(w, now) })
	})
	t.add(c.Flags())
	c.Flags().BoolVar(&clearQuotas, "clear-quotas", false, "remove all quotas")
	o.AddOutput(c)
	return c
}

func (a *commands) tenantDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete TENANT", Short: "Delete a tenant that has no live jobs", Example: "  ares tenant delete sound", Args: command.ExactArgs("TENANT"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeleteTenant(ctx, args[0]); err != nil {
				return err
			}
			output.Printf(a.Out, "%s deleted\n", output.Clean(args[0]))
			return nil
		}),
	}
}
