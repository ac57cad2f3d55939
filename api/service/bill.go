package service

import (
	"context"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
)

// billPeriod is the period of a usage request that asks for the lines of a month's bill.
const billPeriod = "bill"

// The statuses of a bill.
const (
	billOpen   = "open"
	billClosed = "closed"
)

// billMonth reads the month of a request for a bill.
func billMonth(req *apipb.GetUsageRequest) (string, error) {
	var bad ares.Problems
	if len(req.GetBy()) > 0 {
		bad.Add("by", "is not allowed with the period %s, because a bill has fixed lines: remove it", billPeriod)
	}
	if req.GetUser() != "" || req.GetGpuModel() != "" {
		bad.Add("user", "user and gpu_model are not allowed with the period %s: use tenant_id and queue", billPeriod)
	}
	month := ""
	if day, err := history.ParseDay(req.GetFrom()); err != nil {
		bad.Add("from", "the period %s needs the first day of a month, such as 2026-01-01, got %q", billPeriod, ares.Clip(req.GetFrom()))
	} else {
		month = day.Format("2006-01")
		first, last, _ := history.ParseMonth(month)
		if req.GetFrom() != first || req.GetTo() != last {
			bad.Add("to", "the period %s needs a whole month: use from=%s and to=%s", billPeriod, first, last)
		}
	}
	return month, bad.Err()
}

// The method `bill` answers a request for the lines of a bill.
func (d *historyService) bill(ctx context.Context, req *apipb.GetUsageRequest) (*apipb.GetUsageResponse, error) {
	month, err := billMonth(req)
	if err != nil {
		return nil, err
	}
	accounts, err := d.Accounting()
	if err != nil {
		return nil, err
	}
	of := history.BillFilter{Within: visibilityOf(ctx).scopes(roles.UsageRead), Tenant: pipeline.CallOf(ctx).Tenant, Queue: req.GetQueue()}
	b, err := accounts.Bill(ctx, month, d.Cfg.Currency, of)
	if err != nil {
		return nil, err
	}
	at, err := accounting.ClosesAt(month)
	if err != nil {
		return nil, err
	}
	resp := &apipb.GetUsageResponse{Currency: b.Currency, Total: int32(len(b.Lines)), Status: billOpen, ClosesAt: apipb.Timestamp(at)}
	if !b.ClosedAt.IsZero() {
		resp.Status = billClosed
	}
	lines, size := b.Lines, int(req.GetPageSize())
	if size == 0 {
		size = defaultUsagePage
	}
	if after := req.GetPageToken(); after != "" {
		i := slices.IndexFunc(lines, func(l history.BillLine) bool { return l.ID == after })
		if i < 0 {
			return nil, badPageToken()
		}
		lines = lines[i+1:]
	}
	if len(lines) > size {
		lines, resp.NextPageToken = lines[:size], lines[size-1].ID
	}
	for i := range lines {
		resp.Rows = append(resp.Rows, billRow(month, &lines[i]))
	}
	return resp, nil
}

func billRow(month string, l *history.BillLine) *apipb.UsageRow {
	row := &apipb.UsageRow{
		Period: month, TenantId: l.Tenant, Queue: l.Queue, GpuModel: l.Model, Region: l.Region, Jobs: int32(min(l.Jobs, ares.Unlimited)),
		GpuHours: hours(l.GPUMilliseconds), Cost: l.Cost(), LineId: l.ID, PriceSource: l.PriceSource, PricePerGpuHour: l.PerGPUHour,
	}
	if l.PerGPUHour == nil {
		row.UnpricedGpuHours = row.GpuHours
	}
	return row
}
