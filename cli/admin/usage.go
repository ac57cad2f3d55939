package admin

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// usageFlags are the flags that filter and group a usage query.
type usageFlags struct {
	output.Flags

	req            apipb.GetUsageRequest
	byDay, byMonth bool
	month          string
}

func (u *usageFlags) add(c *cobra.Command, by []string) {
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVar(&u.req.By, "by", by, "group by tenant, queue, user, model or region, or by several of them")
	f.BoolVar(&u.byDay, "by-day", false, "show a row for each day, in UTC")
	f.BoolVar(&u.byMonth, "by-month", false, "show a row for each month")
	f.StringVar(&u.req.From, "from", "", "the first day, such as 2026-01-31")
	f.StringVar(&u.req.To, "to", "", "the last day")
	f.StringVar(&u.month, "month", "", "a whole month, such as 2026-01, instead of --from and --to")
	f.StringVar(&u.req.TenantId, "tenant-id", "", "only usage of this tenant")
	f.StringVar(&u.req.Queue, "queue", "", "only usage of this queue")
	f.StringVar(&u.req.User, "user", "", "only usage of jobs that this user submitted")
	f.StringVar(&u.req.GpuModel, "gpu-model", "", "only usage of GPUs with this text in their model name")
	output.Must(c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp)))
}

var dimensions = []string{"tenant", "queue", "user", "model", "region"}

// The method `request` builds the query that the flags describe.
func (u *usageFlags) request() (*apipb.GetUsageRequest, error) {
	for _, by := range u.req.GetBy() {
		if !slices.Contains(dimensions, by) {
			return nil, exit.Usagef("--by %s: use tenant, queue, user, model or region", by)
		}
	}
	switch {
	case u.byDay && u.byMonth:
		return nil, exit.Usagef("--by-day and --by-month: use one of them")
	case u.byDay:
		u.req.Period = "day"
	case u.byMonth:
		u.req.Period = "month"
	}
	if u.month != "" {
		first, err := time.Parse("2006-01", u.month)
		if err != nil {
			return nil, exit.Usagef("--month %s: use a month such as 2026-01", u.month)
		}
		if u.req.GetFrom() != "" || u.req.GetTo() != "" {
			return nil, exit.Usagef("--month %s is a whole month: remove --from and --to", u.month)
		}
		u.req.From, u.req.To = first.Format(time.DateOnly), first.AddDate(0, 1, -1).Format(time.DateOnly)
	}
	from, to := u.req.GetFrom(), u.req.GetTo()
	if err := cmp.Or(dayFlag("from", from), dayFlag("to", to)); err != nil {
		return nil, err
	}
	if from != "" && to != "" && from > to {
		return nil, exit.Usagef("--from %s is after --to %s", from, to)
	}
	return &u.req, nil
}

func (a *commands) usageCommand() *cobra.Command {
	var u usageFlags
	c := &cobra.Command{
		Use: "usage", Short: "Show GPU-hours used", Example: "  ares usage --by tenant,model", Args: command.ExactArgs(),
		Long: `Show the GPU-hours of finished jobs, and of running jobs until now. GPU time is counted from the
placement of an attempt until the attempt ends. If a job uses only a fraction of a GPU, only
this fraction is counted. Days and months are in UTC.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := u.request()
			if err != nil {
				return err
			}
			return a.Show(ctx, &u.Flags, func(ctx context.Context) (proto.Message, error) { return c.Usage(ctx, req) },
				func(w io.Writer, m proto.Message) { a.writeUsage(w, m.(*apipb.GetUsageResponse), req, false) })
		}),
	}
	u.add(c, []string{"tenant"})
	u.Flags.Add(c)
	return c
}

func (a *commands) costCommand() *cobra.Command {
	var u usageFlags
	c := &cobra.Command{
		Use: "cost", Short: "Show the cost of GPU-hours", Example: "  ares cost --by tenant", Args: command.ExactArgs(),
		Long: `Show the cost of GPU time. The GPU time of each day is charged at the price that applies on that
day (see "ares price list"). GPU time without a price costs nothing and is listed separately.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := u.request()
			if err != nil {
				return err
			}
			return a.Show(ctx, &u.Flags, func(ctx context.Context) (proto.Message, error) { return c.Usage(ctx, req) },
				func(w io.Writer, m proto.Message) { a.writeUsage(w, m.(*apipb.GetUsageResponse), req, true) })
		}),
	}
	u.add(c, []string{"tenant"})
	u.Flags.Add(c)
	c.AddCommand(a.costExportCommand())
	return c
}

// usageColumns returns the columns that identify a row of the usage report,
// such as tenant and queue.
func usageColumns(req *apipb.GetUsageRequest) (head []string, values func(*apipb.UsageRow) []string) {
	var get []func(*apipb.UsageRow) string
	add := func(name string, field func(*apipb.UsageRow) string) {
		head, get = append(head, name), append(get, field)
	}
	switch req.GetPeriod() {
	case "day":
		add("DAY", (*apipb.UsageRow).GetPeriod)
	case "month":
		add("MONTH", (*apipb.UsageRow).GetPeriod)
	}
	for i, field := range []func(*apipb.UsageRow) string{
		(*apipb.UsageRow).GetTenantId, (*apipb.UsageRow).GetQueue, (*apipb.UsageRow).GetUser, (*apipb.UsageRow).GetGpuModel, (*apipb.UsageRow).GetRegion,
	} {
		if slices.Contains(req.GetBy(), dimensions[i]) {
			add([]string{"TENANT", "QUEUE", "USER", "MODEL", "REGION"}[i], field)
		}
	}
	return head, func(r *apipb.UsageRow) []string {
		out := make([]string, len(get))
		for i, field := range get {
			out[i] = field(r)
		}
		return out
	}
}

func (a *commands) writeUsage(w io.Writer, m *apipb.GetUsageResponse, req *apipb.GetUsageRequest, cost bool) {
	if len(m.GetRows()) == 0 {
		output.Printf(w, "No usage.\n")
		return
	}
	head, values := usageColumns(req)
	head = append(head, "JOBS", "GPU-HOURS")
	if cost {
		head = append(head, "COST "+m.GetCurrency(), "UNPRICED")
	}
	t := output.Table{Head: head}
	for _, r := range m.GetRows() {
		row := append(values(r), strconv.Itoa(int(r.GetJobs())), fmt.Sprintf("%.3f", r.GetGpuHours()))
		if cost {
			row = append(row, fmt.Sprintf("%.2f", r.GetCost()), fmt.Sprintf("%.3f", r.GetUnpricedGpuHours()))
		}
		for i := range row {
			if row[i] == "" {
				row[i] = "-"
			}
		}
		t.Add(row...)
	}
	a.WriteTable(w, &t)
}

// writeBilling writes amounts without rounding, so that their sum is exact.
func writeBilling(w io.Writer, m *apipb.GetUsageResponse, req *apipb.GetUsageRequest) error {
	names := map[string]string{"DAY": "day", "MONTH": "month", "TENANT": "tenant", "QUEUE": "queue", "USER": "user", "MODEL": "gpu_model", "REGION": "region"}
	head, values := usageColumns(req)
	for i := range head {
		head[i] = names[head[i]]
	}
	out := csv.NewWriter(w)
	err := out.Write(append(head, "jobs", "gpu_hours", "cost", "currency", "unpriced_gpu_hours"))
	for _, r := range m.GetRows() {
		row := values(r)
		for i := range row {
			row[i] = output.CSVCell(row[i])
		}
		err = errors.Join(err, out.Write(append(row, strconv.Itoa(int(r.GetJobs())), output.FixedPoint(r.GetGpuHours()), output.FixedPoint(r.GetCost()), m.GetCurrency(), output.FixedPoint(r.GetUnpricedGpuHours()))))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}
