package service

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
)

// defaultUsagePage is the number of usage rows on a page.
const defaultUsagePage = 1000

// historyService implements HistoryService.
type historyService struct {
	apipb.UnimplementedHistoryServiceServer
	*Services
}

// GetUsage implements apipb.HistoryServiceServer.
func (d *historyService) GetUsage(ctx context.Context, req *apipb.GetUsageRequest) (*apipb.GetUsageResponse, error) {
	if req.GetPeriod() == billPeriod {
		return d.bill(ctx, req)
	}
	q := history.UsageQuery{
		Tenant: pipeline.CallOf(ctx).Tenant, Queue: req.GetQueue(), User: req.GetUser(), Model: req.GetGpuModel(),
		From: req.GetFrom(), To: req.GetTo(), Period: history.Period(req.GetPeriod()),
	}
	for _, by := range req.GetBy() {
		q.By = append(q.By, history.Dimension(by))
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	q.Within = visibilityOf(ctx).scopes(roles.UsageRead)
	after, err := readUsageToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	accounts, err := d.Accounting()
	if err != nil {
		return nil, err
	}
	rows, err := accounts.Usage(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &apipb.GetUsageResponse{Currency: d.Cfg.Currency, Total: int32(len(rows))}
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultUsagePage
	}
	for i := range rows {
		u := &rows[i]
		if after != nil && u.Compare(*after) <= 0 {
			continue
		}
		if len(resp.Rows) == size {
			resp.NextPageToken = usageToken(rows[i-1].Holder)
			break
		}
		resp.Rows = append(resp.Rows, &apipb.UsageRow{
			Period: u.Period, TenantId: u.Tenant, Queue: u.Queue, User: u.User, GpuModel: u.Model, Region: u.Region,
			Jobs: int32(min(u.Jobs, ares.Unlimited)), GpuHours: u.GPUHours(), Cost: u.Cost, UnpricedGpuHours: hours(u.Unpriced),
		})
	}
	return resp, nil
}

func hours(ms int64) float64 { return time.Duration(ms * int64(time.Millisecond)).Hours() }

// usageToken returns a page token that names the last row of a page. The next page then starts
// after that row, even if rows were added.
func usageToken(last history.Holder) string {
	data, err := json.Marshal(last)
	if err != nil {
		return "" // a struct of strings always converts to JSON
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func readUsageToken(token string) (*history.Holder, error) {
	if token == "" {
		return nil, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	last := &history.Holder{}
	if err != nil || json.Unmarshal(data, last) != nil {
		return nil, badPageToken()
	}
	return last, nil
}

// ListPrices implements apipb.HistoryServiceServer.
func (d *historyService) ListPrices(ctx context.Context, _ *apipb.ListPricesRequest) (*apipb.ListPricesResponse, error) {
	accounts, err := d.Accounting()
	if err != nil {
		return nil, err
	}
	prices, err := accounts.History.Prices(ctx)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListPricesResponse{}
	for _, p := range prices {
		resp.Prices = append(resp.Prices, d.newPrice(&p))
	}
	return resp, nil
}

func (d *historyService) newPrice(p *history.Price) *apipb.Price {
	return &apipb.Price{
		GpuModel: p.Model, Region: p.Region, From: p.From, PricePerGpuHour: p.PerGPUHour, Currency: d.Cfg.Currency, SetBy: p.By, SetAt: apipb.Timestamp(p.At),
	}
}

// SetPrice implements apipb.HistoryServiceServer.
func (d *historyService) SetPrice(ctx context.Context, req *apipb.SetPriceRequest) (*apipb.SetPriceResponse, error) {
	m := req.GetPrice()
	var bad ares.Problems
	for _, f := range []struct {
		name  string
		given bool
	}{{"currency", m.GetCurrency() != ""}, {"set_by", m.GetSetBy() != ""}, {"set_at", m.GetSetAt() != nil}} {
		if f.given {
			bad.Add(f.name, "is not part of a request: remove it")
		}
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	now := pipeline.WholeMicros(d.Cfg.Now())
	p := history.Price{Model: m.GetGpuModel(), Region: m.GetRegion(), From: m.GetFrom(), PerGPUHour: m.GetPricePerGpuHour(), By: pipeline.CallerName(ctx), At: now}
	if p.From == "" {
		p.From = now.Format(time.DateOnly)
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	accounts, err := d.Accounting()
	if err != nil {
		return nil, err
	}
	was, err := priceBefore(ctx, accounts, p.Model, p.Region, p.From)
	if err != nil {
		return nil, err
	}
	if err = accounts.History.SetPrice(ctx, p); err != nil {
		return nil, err
	}
	kept := p
	kept.Model = strings.ToLower(p.Model)
	pipeline.AuditChange(ctx, "", was, kept)
	return &apipb.SetPriceResponse{Price: d.newPrice(&p)}, nil
}

// DeletePrice implements apipb.HistoryServiceServer.
func (d *historyService) DeletePrice(ctx context.Context, req *apipb.DeletePriceRequest) (*apipb.DeletePriceResponse, error) {
	if _, err := history.ParseDay(req.GetFrom()); err != nil {
		return nil, err
	}
	accounts, err := d.Accounting()
	if err != nil {
		return nil, err
	}
	was, err := priceBefore(ctx, accounts, req.GetGpuModel(), req.GetRegion(), req.GetFrom())
	if err != nil {
		return nil, err
	}
	if err = accounts.History.DeletePrice(ctx, req.GetGpuModel(), req.GetRegion(), req.GetFrom()); err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", was, nil)
	return &apipb.DeletePriceResponse{Message: "Price deleted"}, nil
}

// priceBefore returns the price that was stored before a change, or nil if
// there was none.
func priceBefore(ctx context.Context, accounts *accounting.Accounting, model, region, from string) (any, error) {
	prices, err := accounts.History.Prices(ctx)
	for _, p := range prices {
		if strings.EqualFold(p.Model, model) && p.Region == region && p.From == from {
			return p, err
		}
	}
	return nil, err
}

// The method `use` returns the usage and cost of a job. If no prices have been read yet, `use`
// returns nil, and the job is shown without its cost.
func (d *Services) use(ctx context.Context, parts []history.Part) *apipb.JobUse {
	if prices, known := d.Cfg.Accounting.RecentPrices(ctx); known {
		return d.priced(prices, parts)
	}
	return nil
}

func (d *Services) priced(prices history.Prices, parts []history.Part) *apipb.JobUse {
	ms := int64(0)
	for _, p := range parts {
		ms += p.GPUMilliseconds
	}
	cost, unpriced := prices.Cost(parts)
	return &apipb.JobUse{GpuHours: hours(ms), Cost: cost, Currency: d.Cfg.Currency, UnpricedGpuHours: hours(unpriced)}
}

// listAll lists live and archived jobs.
func (d *jobService) listAll(ctx context.Context, f cache.Filter) (accounting.JobPage, history.Prices, error) {
	accounts, err := d.Accounting()
	if err != nil {
		return accounting.JobPage{}, nil, err
	}
	page, err := accounts.Jobs(ctx, f)
	if err != nil {
		return page, nil, err
	}
	prices, err := accounts.History.Prices(ctx)
	return page, prices, err
}
