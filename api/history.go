package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// defaultUsagePage is how many rows of usage a page has.
const defaultUsagePage = 1000

// historyDoor is the HistoryService.
type historyDoor struct {
	apipb.UnimplementedHistoryServiceServer
	*Doors
}

func (d *Doors) ledger() (*control.Ledger, error) {
	if d.cfg.Ledger == nil {
		return nil, ares.Errorf(ares.Unavailable, "this server keeps no history")
	}
	return d.cfg.Ledger, nil
}

// GetUsage implements apipb.HistoryServiceServer.
func (d *historyDoor) GetUsage(ctx context.Context, req *apipb.GetUsageRequest) (*apipb.GetUsageResponse, error) {
	q := history.UsageQuery{
		Tenant: req.GetTenantId(), Queue: req.GetQueue(), User: req.GetUser(), Model: req.GetGpuModel(),
		From: req.GetFrom(), To: req.GetTo(), Period: history.Period(req.GetPeriod()),
	}
	for _, by := range req.GetBy() {
		q.By = append(q.By, history.Dimension(by))
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	q.Within = eyesOf(ctx).scopes(roles.UsageRead)
	after, err := readUsageToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	ledger, err := d.ledger()
	if err != nil {
		return nil, err
	}
	rows, err := ledger.Usage(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &apipb.GetUsageResponse{Currency: d.cfg.Currency, Total: int32(len(rows))}
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

// usageToken says behind which row the next page begins, so that it does so
// although there are more rows by then.
func usageToken(last history.Holder) string {
	data, err := json.Marshal(last)
	if err != nil {
		return "" // text always is JSON
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
func (d *historyDoor) ListPrices(ctx context.Context, _ *apipb.ListPricesRequest) (*apipb.ListPricesResponse, error) {
	ledger, err := d.ledger()
	if err != nil {
		return nil, err
	}
	prices, err := ledger.History.Prices(ctx)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListPricesResponse{}
	for _, p := range prices {
		resp.Prices = append(resp.Prices, d.newPrice(&p))
	}
	return resp, nil
}

func (d *historyDoor) newPrice(p *history.Price) *apipb.Price {
	return &apipb.Price{
		GpuModel: p.Model, Region: p.Region, From: p.From, PricePerGpuHour: p.PerGPUHour, Currency: d.cfg.Currency, SetBy: p.By, SetAt: apipb.Timestamp(p.At),
	}
}

// SetPrice implements apipb.HistoryServiceServer.
func (d *historyDoor) SetPrice(ctx context.Context, req *apipb.SetPriceRequest) (*apipb.SetPriceResponse, error) {
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
	now := wholeMicros(d.cfg.Now())
	p := history.Price{Model: m.GetGpuModel(), Region: m.GetRegion(), From: m.GetFrom(), PerGPUHour: m.GetPricePerGpuHour(), By: caller(ctx), At: now}
	if p.From == "" {
		p.From = now.Format(time.DateOnly)
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	ledger, err := d.ledger()
	if err != nil {
		return nil, err
	}
	was, err := priceBefore(ctx, ledger, p.Model, p.Region, p.From)
	if err != nil {
		return nil, err
	}
	if err = ledger.History.SetPrice(ctx, p); err != nil {
		return nil, err
	}
	kept := p
	kept.Model = strings.ToLower(p.Model)
	changed(ctx, "", was, kept)
	return &apipb.SetPriceResponse{Price: d.newPrice(&p)}, nil
}

// DeletePrice implements apipb.HistoryServiceServer.
func (d *historyDoor) DeletePrice(ctx context.Context, req *apipb.DeletePriceRequest) (*apipb.DeletePriceResponse, error) {
	if _, err := history.ParseDay(req.GetFrom()); err != nil {
		return nil, err
	}
	ledger, err := d.ledger()
	if err != nil {
		return nil, err
	}
	was, err := priceBefore(ctx, ledger, req.GetGpuModel(), req.GetRegion(), req.GetFrom())
	if err != nil {
		return nil, err
	}
	if err = ledger.History.DeletePrice(ctx, req.GetGpuModel(), req.GetRegion(), req.GetFrom()); err != nil {
		return nil, err
	}
	changed(ctx, "", was, nil)
	return &apipb.DeletePriceResponse{Message: "Price deleted"}, nil
}

// priceBefore is the price that is there before a change, nil for none.
func priceBefore(ctx context.Context, ledger *control.Ledger, model, region, from string) (any, error) {
	prices, err := ledger.History.Prices(ctx)
	for _, p := range prices {
		if strings.EqualFold(p.Model, model) && p.Region == region && p.From == from {
			return p, err
		}
	}
	return nil, err
}

// remembered finds a job that is no longer live. The error is store.NoJob when
// there is none, and another when history does not answer.
func (d *Doors) remembered(ctx context.Context, id ares.JobID) (*control.Known, error) {
	if d.cfg.Ledger == nil {
		return nil, store.NoJob(id)
	}
	found, err := d.cfg.Ledger.Job(ctx, id, "")
	switch {
	case err == nil:
		return &found, nil
	case ares.CodeOf(err) == ares.NotFound:
		return nil, store.NoJob(id)
	}
	return nil, err
}

// use is what a job has used and what that costs; nil while no prices were ever
// read: it is an addition, and a job is told without.
func (d *Doors) use(ctx context.Context, parts []history.Part) *apipb.JobUse {
	if prices, known := d.cfg.Ledger.RecentPrices(ctx); known {
		return d.priced(prices, parts)
	}
	return nil
}

func (d *Doors) priced(prices history.Prices, parts []history.Part) *apipb.JobUse {
	ms := int64(0)
	for _, p := range parts {
		ms += p.GPUMilliseconds
	}
	cost, unpriced := prices.Cost(parts)
	return &apipb.JobUse{GpuHours: hours(ms), Cost: cost, Currency: d.cfg.Currency, UnpricedGpuHours: hours(unpriced)}
}

// listAll lists jobs wherever they are.
func (d *jobDoor) listAll(ctx context.Context, f control.Filter) (control.KnownPage, history.Prices, error) {
	ledger, err := d.ledger()
	if err != nil {
		return control.KnownPage{}, nil, err
	}
	page, err := ledger.Jobs(ctx, f)
	if err != nil {
		return page, nil, err
	}
	prices, err := ledger.History.Prices(ctx)
	return page, prices, err
}
