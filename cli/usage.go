package cli

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
	"github.com/ares-scheduler/ares/client"
)

// usageFlags are what usage is asked for by.
type usageFlags struct {
	readFlags

	req            apipb.GetUsageRequest
	byDay, byMonth bool
	month          string
}

func (u *usageFlags) add(c *cobra.Command, by []string) {
	f := c.Flags()
	f.SortFlags = false
	f.StringSliceVar(&u.req.By, "by", by, "what to count by: tenant, queue, user, model, region; several for each combination")
	f.BoolVar(&u.byDay, "by-day", false, "a row for each day, in UTC")
	f.BoolVar(&u.byMonth, "by-month", false, "a row for each month")
	f.StringVar(&u.req.From, "from", "", "the first day, such as 2026-01-31")
	f.StringVar(&u.req.To, "to", "", "the last day")
	f.StringVar(&u.month, "month", "", "all of this month instead, such as 2026-01")
	f.StringVar(&u.req.TenantId, "tenant-id", "", "only the use of this tenant")
	f.StringVar(&u.req.Queue, "queue", "", "only that of this queue")
	f.StringVar(&u.req.User, "user", "", "only that of jobs this identity submitted")
	f.StringVar(&u.req.GpuModel, "gpu-model", "", "only that of GPUs whose model's name contains this")
	must(c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp)))
}

var dimensions = []string{"tenant", "queue", "user", "model", "region"}

// request is what the flags ask for.
func (u *usageFlags) request() (*apipb.GetUsageRequest, error) {
	for _, by := range u.req.GetBy() {
		if !slices.Contains(dimensions, by) {
			return nil, usagef("--by %s: use tenant, queue, user, model or region", by)
		}
	}
	switch {
	case u.byDay && u.byMonth:
		return nil, usagef("--by-day and --by-month: use one of them")
	case u.byDay:
		u.req.Period = "day"
	case u.byMonth:
		u.req.Period = "month"
	}
	if u.month != "" {
		first, err := time.Parse("2006-01", u.month)
		if err != nil {
			return nil, usagef("--month %s: write a month as 2026-01", u.month)
		}
		if u.req.GetFrom() != "" || u.req.GetTo() != "" {
			return nil, usagef("--month %s is a whole month: leave --from and --to out", u.month)
		}
		u.req.From, u.req.To = first.Format(time.DateOnly), first.AddDate(0, 1, -1).Format(time.DateOnly)
	}
	from, to := u.req.GetFrom(), u.req.GetTo()
	if err := cmp.Or(dayFlag("from", from), dayFlag("to", to)); err != nil {
		return nil, err
	}
	if from != "" && to != "" && from > to {
		return nil, usagef("--from %s is after --to %s", from, to)
	}
	return &u.req, nil
}

func (a *app) usageCommand() *cobra.Command {
	var u usageFlags
	c := &cobra.Command{
		Use: "usage", Short: "Show how much GPU time was used, by whom and when", Args: exactly(),
		Long: `Show the GPU-hours of jobs that ended and, up to now, of those that run. A GPU counts
from the time a job is placed on it until the attempt ends; a share of one counts as
that part. Days and months are in UTC.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := u.request()
			if err != nil {
				return err
			}
			return a.show(ctx, &u.readFlags, func(ctx context.Context) (proto.Message, error) { return c.Usage(ctx, req) },
				func(w io.Writer, m proto.Message) { a.writeUsage(w, m.(*apipb.GetUsageResponse), req, false) })
		}),
	}
	u.add(c, []string{"tenant"})
	u.readFlags.add(c)
	return c
}

func (a *app) costCommand() *cobra.Command {
	var u usageFlags
	c := &cobra.Command{
		Use: "cost", Short: "Show what the GPU time cost", Args: exactly(),
		Long: `Show the cost of GPU time by the prices in force on each day ("ares price list"). What
has no price costs nothing and is shown beside.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			req, err := u.request()
			if err != nil {
				return err
			}
			return a.show(ctx, &u.readFlags, func(ctx context.Context) (proto.Message, error) { return c.Usage(ctx, req) },
				func(w io.Writer, m proto.Message) { a.writeUsage(w, m.(*apipb.GetUsageResponse), req, true) })
		}),
	}
	u.add(c, []string{"tenant"})
	u.readFlags.add(c)
	c.AddCommand(a.costExportCommand())
	return c
}

// usageColumns are the columns that say whose a row is.
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

func (a *app) writeUsage(w io.Writer, m *apipb.GetUsageResponse, req *apipb.GetUsageRequest, cost bool) {
	if len(m.GetRows()) == 0 {
		say(w, "Nothing was used.\n")
		return
	}
	head, values := usageColumns(req)
	head = append(head, "JOBS", "GPU-HOURS")
	if cost {
		head = append(head, "COST "+m.GetCurrency(), "UNPRICED")
	}
	t := table{head: head}
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
		t.add(row...)
	}
	t.write(w, a.color)
}

func (a *app) costExportCommand() *cobra.Command {
	var u usageFlags
	c := &cobra.Command{
		Use: "export", Short: "Write what each tenant owes as CSV, for billing", Args: exactly(),
		Long: `Write CSV with a row for each month, tenant, queue, user, model and region: GPU-hours,
their cost and what of them has no price. --by and --by-day choose other rows.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			u.byMonth = u.byMonth || !u.byDay
			req, err := u.request()
			if err != nil {
				return err
			}
			m, err := c.Usage(ctx, req)
			if err != nil {
				return err
			}
			return writeBilling(a.out, m, req)
		}),
	}
	u.add(c, dimensions)
	return c
}

// writeBilling writes amounts in full: rounding is for who sums them up.
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
			row[i] = harmless(row[i])
		}
		err = errors.Join(err, out.Write(append(row, strconv.Itoa(int(r.GetJobs())), fixed(r.GetGpuHours()), fixed(r.GetCost()), m.GetCurrency(), fixed(r.GetUnpricedGpuHours()))))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

func fixed(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }

// harmless keeps a spreadsheet from taking what somebody named a job for a
// formula.
func harmless(s string) string {
	if s != "" && slices.Contains([]byte("=+-@\t\r"), s[0]) {
		return "'" + s
	}
	return s
}
