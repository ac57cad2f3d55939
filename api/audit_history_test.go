package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// The type `shipped` is a fake audit history that can be made to fail.
type shipped struct {
	history.AuditEntries

	down error
}

func (s *shipped) List(ctx context.Context, q audit.Query, after *history.AuditCursor) ([]audit.Entry, bool, error) {
	if s.down != nil {
		return nil, false, s.down
	}
	return s.AuditEntries.List(ctx, q, after)
}

// TestAuditOfAllServers checks a list of audit entries. If the history database answers, the list
// has the entries of all servers. Otherwise it has only this server's entries. The answer must
// say whether it contains the entries of all servers.
func TestAuditOfAllServers(t *testing.T) {
	all := &shipped{AuditEntries: history.AuditEntries{History: historytest.SQLite(t).Open(t)}}
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

// TestAuditDoesNotNameOutsiders checks what a tenant's administrator sees of callers of other
// tenants. The administrator can see what they tried to do, but no query shows their names. A
// caller that may read the audit log of all tenants must see the names.
func TestAuditDoesNotNameOutsiders(t *testing.T) {
	e := newEstate(t)
	thief := e.put("thief", "b", ares.Binding{Role: ares.TenantAdmin, Tenant: "b"})
	e.cfg.Auth.Changed()
	batch := map[string]any{"jobs": []any{map[string]any{"request_id": "thiefs-own", "name": "x", "tenant_id": "a", "command": []string{"true"}}}}
	e.do("GET", "/api/v1/jobs/"+e.jobs["a"], nil, with(thief))
	e.do("DELETE", "/api/v1/tenants/a/queues/q", nil, with(thief))
	e.do("POST", "/api/v1/jobs:batch", batch, with(thief))
	e.do("DELETE", "/api/v1/jobs/"+e.jobs["a"], nil, with(thief))
	e.do("DELETE", "/api/v1/tenants/a/queues/nosuch", nil, with(e.tokens["tenant-admin"])) // rejected, and the entry belongs to the tenant

	past := history.AuditEntries{History: historytest.SQLite(t).Open(t)}
	all, err := e.cfg.AuditLog.List(t.Context(), audit.Query{OldestFirst: true, Limit: 1000})
	must(t, err)
	must(t, past.Take(t.Context(), all.Entries))
	for name, shipped := range map[string]service.AuditHistory{"its own log": nil, "history": past} {
		e.Services.Cfg.AuditHistory = shipped
		ask := func(as, query string) string {
			t.Helper()
			got := e.do("GET", "/api/v1/audit?page_size=1000&"+query, nil, with(e.tokens[as]))
			if got.code != 200 || got.json["from_history"] != (shipped != nil) {
				t.Fatalf("%s: %d %s", name, got.code, got.body)
			}
			return got.body
		}
		for _, query := range []string{"", "tenant_id=a", "status=refused", "user=token:b/thief"} {
			for _, reader := range []string{"tenant-admin", "auditor"} { // both belong to the tenant
				if body := ask(reader, query); strings.Contains(body, "thief") {
					t.Errorf("%s: %s asks for %q and reads %s", name, reader, query, body)
				}
			}
		}
		// A tenant's administrator must not see the hash of any entry, because a
		// guessed name could be checked against the hash. Each entry also contains
		// the hash of the previous entry.
		whole, mine := ask("platform-admin", ""), ask("tenant-admin", "")
		for i := range all.Entries {
			if hash := all.Entries[i].Hash; !strings.Contains(whole, hash) || strings.Contains(mine, hash) {
				t.Errorf("%s: the hash of %+v is told to a tenant, or not to the platform", name, all.Entries[i])
			}
		}
		if body := ask("tenant-admin", "user=token:b/thief"); strings.Contains(body, "DELETE_QUEUE") {
			t.Errorf("%s: an outsider is found by name: %s", name, body)
		}
		told := ask("tenant-admin", "status=refused")
		for _, want := range []string{audit.Outsider, "DELETE_QUEUE", "queue/a/q", "GET_JOB", e.jobs["a"], "token:a/tenant-admin", "CANCEL_JOB"} {
			if !strings.Contains(told, want) {
				t.Errorf("%s: what was tried is told without %q: %s", name, want, told)
			}
		}
		if whole = ask("platform-admin", "tenant_id=a&user=token:b/thief"); !strings.Contains(whole, "DELETE_QUEUE") || !strings.Contains(whole, `"request_id":"thiefs-own"`) {
			t.Errorf("%s: the platform is told %s", name, whole)
		}
	}
}
