package admin

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) costExportCommand() *cobra.Command {
	var u usageFlags
	var form string
	var open bool
	c := &cobra.Command{
		Use: "export", Short: "Export costs for billing", Example: `  ares cost export --month 2026-10 > bill.csv
  ares cost export --by tenant --by-day --from 2026-10-01`, Args: command.ExactArgs(),
		Long: `Export the cost of GPU time for a billing system.

With --month, write the bill of that month: one line for each tenant, queue, GPU model, region
and price. A month is closed 3 days after its end. The bill of a closed month is stored and
never changes, and each line has an ID that stays the same, so a bill can be imported again.
For an open month, the command fails. With --open, it writes the lines of the month as they are
now.

Without --month, or with --by or --by-day, write CSV with one row per month, tenant, queue,
user, model and region, computed with the current prices.`,
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		if form != "csv" && form != "json" {
			return exit.Usagef("--output %s: use csv or json", form)
		}
		if u.month != "" && !u.byDay && !u.byMonth && !c.Flags().Changed("by") {
			return a.exportBill(ctx, cl, &u, form, open)
		}
		if open || form != "csv" {
			return exit.Usagef("--open and --output json are for the bill of a month: use --month, without --by, --by-day and --by-month")
		}
		u.byMonth = u.byMonth || !u.byDay
		req, err := u.request()
		if err != nil {
			return err
		}
		m, err := cl.Usage(ctx, req)
		if err != nil {
			return err
		}
		return writeBilling(a.Out, m, req)
	})
	u.add(c, dimensions)
	c.Flags().StringVarP(&form, "output", "o", "csv", "csv, or json for one JSON object per line")
	c.Flags().BoolVar(&open, "open", false, "with --month: also export a month that is not closed, with status open")
	output.Must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"csv", "json"}, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func (a *commands) exportBill(ctx context.Context, c *client.Client, u *usageFlags, form string, open bool) error {
	u.req.By = nil
	req, err := u.request()
	if err != nil {
		return err
	}
	if req.GetUser() != "" || req.GetGpuModel() != "" {
		return exit.Usagef("--user and --gpu-model select no lines of a bill: remove them, or add --by user,model")
	}
	req.Period = "bill"
	m, err := c.Usage(ctx, req)
	if err != nil {
		return err
	}
	if m.GetStatus() != "closed" && !open && (len(m.GetRows()) > 0 || time.Now().Before(m.GetClosesAt().AsTime())) {
		return exit.Usagef("the month %s is open and its bill may still change: export it after %s, or add --open to export the lines as they are now", u.month, m.GetClosesAt().AsTime().Format(time.DateTime+" MST"))
	}
	if form == "json" {
		return writeBillJSON(a.Out, m)
	}
	return writeBillCSV(a.Out, m)
}

// billLine is a line of a bill, in the order of its columns.
type billLine struct {
	LineID          string `json:"line_id"`
	Month           string `json:"month"`
	Status          string `json:"status"`
	Tenant          string `json:"tenant"`
	Queue           string `json:"queue"`
	GPUModel        string `json:"gpu_model"`
	Region          string `json:"region"`
	Jobs            string `json:"jobs"`
	GPUHours        string `json:"gpu_hours"`
	PricePerGPUHour string `json:"price_per_gpu_hour"`
	PriceSource     string `json:"price_source"`
	Cost            string `json:"cost"`
	Currency        string `json:"currency"`
}

// newBillLine writes numbers with a fixed number of decimals, so that the same line is always the same text.
func newBillLine(m *apipb.GetUsageResponse, r *apipb.UsageRow) billLine {
	l := billLine{
		LineID: r.GetLineId(), Month: r.GetPeriod(), Status: m.GetStatus(), Tenant: r.GetTenantId(), Queue: r.GetQueue(), GPUModel: r.GetGpuModel(), Region: r.GetRegion(),
		Jobs: strconv.Itoa(int(r.GetJobs())), GPUHours: output.FixedPoint(r.GetGpuHours()), PriceSource: r.GetPriceSource(), Cost: output.FixedPoint(r.GetCost()), Currency: m.GetCurrency(),
	}
	if r.PricePerGpuHour != nil {
		l.PricePerGPUHour = output.FixedPoint(r.GetPricePerGpuHour())
	}
	return l
}

func writeBillCSV(w io.Writer, m *apipb.GetUsageResponse) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{
		"line_id", "month", "status", "tenant", "queue", "gpu_model", "region", "jobs", "gpu_hours", "price_per_gpu_hour", "price_source", "cost", "currency",
	})
	for _, r := range m.GetRows() {
		l := newBillLine(m, r)
		err = errors.Join(err, out.Write([]string{
			l.LineID, l.Month, l.Status, output.CSVCell(l.Tenant), output.CSVCell(l.Queue), output.CSVCell(l.GPUModel), output.CSVCell(l.Region),
			l.Jobs, l.GPUHours, l.PricePerGPUHour, output.CSVCell(l.PriceSource), l.Cost, l.Currency,
		}))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

func writeBillJSON(w io.Writer, m *apipb.GetUsageResponse) error {
	out := json.NewEncoder(w)
	for _, r := range m.GetRows() {
		if err := out.Encode(newBillLine(m, r)); err != nil {
			return err
		}
	}
	return nil
}
