package api

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// TestBills reads the bill of a month page by page, and closes the month.
func TestBills(t *testing.T) {
	past, err := history.Open(history.Config{File: filepath.Join(t.TempDir(), "history.db")})
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	var accounts *accounting.Accounting
	h := newHouse(t, func(c *Config) {
		accounts = &accounting.Accounting{View: c.View, History: past, Now: func() time.Time { return historytest.Noon.AddDate(0, 2, 0) }}
		c.Accounting, c.Currency = accounts, "EUR"
	})
	for i, tenant := range []string{"a", "b", "c"} {
		f := historytest.Made{ID: tenant, Tenant: tenant, Revision: int64(i + 1)}.Finished()
		_, err = past.Put(t.Context(), []history.Finished{f})
		must(t, err)
	}
	must(t, past.SetPrice(t.Context(), history.Price{Model: "h100", From: "2030-01-01", PerGPUHour: 2.5, At: historytest.Noon}))
	const month = "/api/v1/usage?period=bill&from=2030-01-01&to=2030-01-31"
	read := func(query string) (text, token string) {
		t.Helper()
		a := h.do("GET", month+query, nil)
		if a.code != http.StatusOK {
			t.Fatalf("%s answered %d %s", query, a.code, a.body)
		}
		lines := []string{fmt.Sprint(a.json["status"], " ", a.json["currency"], " of ", a.json["total"])}
		for _, row := range a.json["rows"].([]any) {
			r := row.(map[string]any)
			lines = append(lines, fmt.Sprint(r["tenant_id"], " ", r["cost"], " ", r["price_source"], " ", r["line_id"].(string)[:8]))
		}
		return strings.Join(lines, "\n"), a.json["next_page_token"].(string)
	}
	text, token := read("&page_size=2")
	if text != "open EUR of 3\na 2.5 h100/*/2030-01-01 2030-01-\nb 2.5 h100/*/2030-01-01 2030-01-" || token == "" {
		t.Errorf("the first page is %s", text)
	}
	if text, token = read("&page_size=2&page_token=" + token); text != "open EUR of 3\nc 2.5 h100/*/2030-01-01 2030-01-" || token != "" {
		t.Errorf("the second page is %s", text)
	}
	if text, _ = read("&queue=default&tenant_id=b"); text != "open EUR of 1\nb 2.5 h100/*/2030-01-01 2030-01-" {
		t.Errorf("the open bill of a tenant is %s", text)
	}
	closed, err := accounts.CloseMonths(t.Context(), "EUR")
	if err != nil || fmt.Sprint(closed) != "[2030-01]" {
		t.Fatalf("closed %v, %v", closed, err)
	}
	must(t, past.SetPrice(t.Context(), history.Price{Model: "h100", From: "2030-01-01", PerGPUHour: 9, At: historytest.Noon}))
	if text, _ = read("&queue=default&tenant_id=b"); text != "closed EUR of 1\nb 2.5 h100/*/2030-01-01 2030-01-" {
		t.Errorf("the closed bill of a tenant is %s", text)
	}
	for query, words := range map[string]string{
		"?period=bill": "first day of a month", "?period=bill&from=2030-01-01&to=2030-01-30": "use from=2030-01-01 and to=2030-01-31", "?period=bill&from=2030-01-02&to=2030-01-31": "whole month",
		"?period=bill&from=2030-01-01&to=2030-01-31&by=tenant": "fixed lines", "?period=bill&from=2030-01-01&to=2030-01-31&user=ann": "tenant_id and queue",
	} {
		h.refused(h.do("GET", "/api/v1/usage"+query, nil), http.StatusBadRequest, ares.Invalid, words)
	}
	h.refused(h.do("GET", month+"&page_token=2030-01-none", nil), http.StatusBadRequest, ares.Invalid, "page_token")
}
