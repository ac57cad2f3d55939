package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// shipped is history behind doors, which can be made to fail.
type shipped struct {
	history.Deeds

	down error
}

func (s *shipped) List(ctx context.Context, q audit.Query, after *history.DeedsAfter) ([]audit.Entry, bool, error) {
	if s.down != nil {
		return nil, false, s.down
	}
	return s.Deeds.List(ctx, q, after)
}

// TestAuditOfAllServers wants the entries of all servers where history answers,
// this server's own where it does not, and to be told which.
func TestAuditOfAllServers(t *testing.T) {
	all := &shipped{Deeds: history.Deeds{History: historytest.SQLite(t).Open(t)}}
	must(t, all.Take(t.Context(), []audit.Entry{
		{Sequence: 1, Server: "elsewhere", Action: "CREATE_QUEUE", Object: "queue/x", Status: audit.Done, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Sequence: 2, Server: "elsewhere", Action: "DELETE_QUEUE", Object: "queue/x", Status: audit.Done, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}))
	log := openLog(t, nil)
	h := newHouse(t, func(c *Config) { c.Audit, c.AuditLog, c.AuditHistory = log, log, all })
	id := h.submit()

	first := h.do("GET", "/api/v1/audit?page_size=1", nil)
	token, _ := first.json["next_page_token"].(string)
	if first.code != 200 || first.json["from_history"] != true || !strings.Contains(first.body, "DELETE_QUEUE") || token == "" {
		t.Fatalf("with history: %d %s", first.code, first.body)
	}
	second := h.do("GET", "/api/v1/audit?page_size=1&page_token="+token, nil)
	if second.code != 200 || !strings.Contains(second.body, "CREATE_QUEUE") || second.json["next_page_token"] != "" {
		t.Errorf("its second page: %d %s", second.code, second.body)
	}
	if own := h.do("GET", "/api/v1/audit?own_log=true", nil); own.code != 200 || own.json["from_history"] != false || !strings.Contains(own.body, id) || strings.Contains(own.body, "elsewhere") {
		t.Errorf("the server's own: %d %s", own.code, own.body)
	}
	all.down = errors.New("down")
	alone := h.do("GET", "/api/v1/audit?page_size=1", nil)
	if alone.code != 200 || alone.json["from_history"] != false || !strings.Contains(alone.body, id) {
		t.Errorf("without history: %d %s", alone.code, alone.body)
	}
	if torn := h.do("GET", "/api/v1/audit?page_token="+token, nil); torn.code < 500 {
		t.Errorf("a second page without history: %d %s", torn.code, torn.body)
	}
	all.down = nil
	if next, _ := alone.json["next_page_token"].(string); next == "" {
		t.Errorf("one page of the log: %s", alone.body)
	} else if more := h.do("GET", "/api/v1/audit?page_token="+next, nil); more.json["from_history"] != false || strings.Contains(more.body, "elsewhere") {
		t.Errorf("what began in the log goes on in history: %s", more.body)
	}
	for _, bad := range []string{"h", "h1.1", "h.1.s", "h1.0.s", "h-1.1.s", "h999999999999999999.1.s", "h1.x.s", "x", "0", "h1.1.a%00b", token + "&own_log=true"} {
		if got := h.do("GET", "/api/v1/audit?page_token="+bad, nil); got.code != 400 {
			t.Errorf("page_token=%s: %d %s", bad, got.code, got.body)
		}
	}
}
