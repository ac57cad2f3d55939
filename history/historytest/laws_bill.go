package historytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/history"
)

func billText(b *history.Bill) string {
	var lines []string
	for _, l := range b.Lines {
		price := "none"
		if l.PerGPUHour != nil {
			price = fmt.Sprint(*l.PerGPUHour)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %d jobs %d ms %.2f", l.Tenant, l.Queue, l.Model, l.Region, l.PriceSource, price, l.Jobs, l.GPUMilliseconds, l.Cost()))
	}
	return strings.Join(lines, "\n")
}

// aClosedBillStays closes a month, and then changes a price and the usage of that month.
func aClosedBillStays(t *testing.T, b Base) {
	h := b.Open(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.CheckOwner(t.Context(), "store-1"))
	for from, price := range map[string]float64{"2030-01-01": 2, "2030-01-10": 3} {
		must(h.SetPrice(t.Context(), history.Price{Model: "h100", From: from, PerGPUHour: price, At: Noon}))
	}
	put(t, h, 3, Made{ID: "a", Revision: 1}.Finished(), Made{ID: "b", Revision: 2, At: Noon.AddDate(0, 0, 14), GPUs: 2}.Finished(),
		Made{ID: "c", Revision: 3, Tenant: "others", Device: "l40s@us"}.Finished())
	bill := func() *history.Bill {
		t.Helper()
		stored, err := h.ClosedBill(t.Context(), "2030-01", history.BillFilter{})
		must(err)
		if stored != nil {
			return stored
		}
		prices, err := h.Prices(t.Context())
		must(err)
		days, err := h.Usage(t.Context(), history.UsageQuery{
			From: "2030-01-01", To: "2030-01-31", Period: history.ByDay,
			By: []history.Dimension{history.ByTenant, history.ByQueue, history.ByModel, history.ByRegion},
		})
		must(err)
		return history.NewBill("2030-01", "store-1", "EUR", prices, days)
	}
	open := bill()
	const want = "others default l40s us  none 1 jobs 3600000 ms 0.00\n" +
		"team default h100 eu h100/*/2030-01-01 2 1 jobs 3600000 ms 2.00\nteam default h100 eu h100/*/2030-01-10 3 1 jobs 7200000 ms 6.00"
	if got := billText(open); got != want {
		t.Fatalf("the bill is\n%s\nwant\n%s", got, want)
	}
	months, err := h.OpenMonths(t.Context(), Noon.AddDate(0, 1, 0))
	if err != nil || !slices.Equal(months, []string{"2030-01"}) {
		t.Errorf("the open months are %v, %v", months, err)
	}
	if months, err = h.OpenMonths(t.Context(), Noon); err != nil || len(months) != 0 {
		t.Errorf("in January, the open months are %v, %v", months, err)
	}
	at := Noon.AddDate(0, 1, 2)
	must(h.CloseMonth(t.Context(), open, at))
	if months, err = h.OpenMonths(t.Context(), Noon.AddDate(0, 1, 0)); err != nil || len(months) != 0 {
		t.Errorf("after the month is closed, the open months are %v, %v", months, err)
	}

	// Nothing of this changes the closed month.
	must(h.SetPrice(t.Context(), history.Price{Model: "h100", From: "2030-01-01", PerGPUHour: 50, At: Noon}))
	put(t, h, 1, Made{ID: "late", Revision: 4, GPUs: 8}.Finished())
	must(h.CloseMonth(t.Context(), &history.Bill{Month: "2030-01", Currency: "USD"}, at.Add(time.Hour)))
	closed := bill()
	if got := billText(closed); got != want || closed.Currency != "EUR" || !closed.ClosedAt.Equal(at) {
		t.Errorf("the closed bill of %v in %s is\n%s", closed.ClosedAt, closed.Currency, got)
	}
	for i := range closed.Lines {
		if closed.Lines[i].ID != open.Lines[i].ID || !strings.HasPrefix(closed.Lines[i].ID, "2030-01-") {
			t.Errorf("the ID of a line was %s and is %s", open.Lines[i].ID, closed.Lines[i].ID)
		}
	}
	if store, err := h.Owner(t.Context()); store != "store-1" || err != nil {
		t.Errorf("the owner is %q, %v", store, err)
	}
	linesAreSelected(t, h)
}

func linesAreSelected(t *testing.T, h *history.History) {
	t.Helper()
	for _, c := range []struct {
		of   history.BillFilter
		want int
	}{
		{history.BillFilter{Within: []history.Scope{{Tenant: "team"}}}, 2},
		{history.BillFilter{Within: []history.Scope{{Tenant: "team", Queue: "none"}, {Tenant: "others", Queue: "default"}}}, 1},
		{history.BillFilter{Within: []history.Scope{}}, 0},
		{history.BillFilter{Within: []history.Scope{{Tenant: "team"}}, Tenant: "others"}, 0},
		{history.BillFilter{Within: manyScopes("")}, 0},
		{history.BillFilter{Tenant: "others", Queue: "default"}, 1},
		{history.BillFilter{Queue: "none"}, 0},
	} {
		if b, err := h.ClosedBill(t.Context(), "2030-01", c.of); err != nil || b == nil || len(b.Lines) != c.want {
			t.Errorf("%.200s selects %+v of a closed bill, %v, want %d lines", fmt.Sprint(c.of), b, err, c.want)
		}
	}
}
