package api

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history/historytest"
)

// The method `archive` ends a tenant's job and archives it, so that only the job's tombstone is left in the
// store.
func (e *estate) archive(tenant string) string {
	id := e.submit("tenant_id", tenant, "queue", "q", "name", canaryOf(tenant))
	a := e.do("DELETE", "/api/v1/jobs/"+id, nil)
	if a.code != 200 {
		e.t.Fatal(a.body)
	}
	snap, err := e.store.Job(e.t.Context(), ares.JobID(id))
	must(e.t, err)
	must(e.t, e.store.Archive(e.t.Context(), snap.Job, &snap.Run, nil))
	e.seen()
	return id
}

// TestNotYoursWithoutHistory calls the methods that take a job ID while the history database is closed. The
// answer for another tenant's job must be the same as for a job that does not exist. Without the history
// database, the server cannot tell whether a job ever existed. Its answer must not reveal that another
// tenant's job exists.
func TestNotYoursWithoutHistory(t *testing.T) {
	e := newEstate(t)
	gone := e.archive("b")
	must(t, e.past.Close())
	all, table := methods(), readTable(t)
	tried := 0
	for _, method := range inTurn(all) {
		if all[method].Input().Fields().ByName("job_id") == nil || table[method]["tenant-admin/foreign"] != unknown {
			continue
		}
		tried++
		ask := func(job string) string {
			code, text := e.call(method, all[method], e.tokens["tenant-admin"], ids{tenant: "b", job: job, other: "q"})
			return code.String() + ": " + strings.ReplaceAll(text, job, "JOB")
		}
		never := ask(string(ares.NewJobID("c", "r")))
		if !strings.HasPrefix(never, codes.Unavailable.String()+": ") {
			t.Errorf("%s of a job that nobody can know of: %s", method, never)
		}
		for what, job := range map[string]string{"that lives": e.jobs["b"], "that was archived": gone} {
			if got := ask(job); got != never {
				t.Errorf("%s of another tenant's job %s is answered %q, of one that is not there %q", method, what, got, never)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d methods name a job: more should", tried)
	}
	page, err := e.cfg.AuditLog.List(t.Context(), audit.Query{Object: e.jobs["b"], Status: audit.Refused})
	must(t, err)
	if len(page.Entries) != tried {
		t.Errorf("the audit has %d of %d refusals", len(page.Entries), tried)
	}
}

// TestArchivedWithoutHistory checks what a caller learns about an archived job
// if the history database does not have the job or does not answer. If the
// history database does not answer, the server must not say that the job does
// not exist.
func TestArchivedWithoutHistory(t *testing.T) {
	e := newEstate(t)
	gone := e.archive("a")
	inQueue := e.put("narrow", "a", ares.Binding{Role: ares.Viewer, Tenant: "a", Queue: "q"})
	e.cfg.Auth.Changed()
	jobs := apipb.NewJobServiceClient(e.conn)
	get := func(token string) string {
		got, err := jobs.GetJob(as(t.Context(), token), &apipb.GetJobRequest{JobId: gone})
		if err != nil {
			return string(ares.CodeOf(apipb.FromStatus(err)))
		}
		return got.GetJob().GetState() + ", " + got.GetJob().GetReason()
	}
	if got := get(e.tokens["viewer"]); got != "cancelled, archived: only how it ended is kept" {
		t.Errorf("history does not have it: %s", got)
	}
	if got := get(inQueue); got != string(ares.NotFound) {
		t.Errorf("history does not have it, and whose queue it was in is not known: %s", got)
	}
	must(t, e.past.Close())
	if got := get(e.tokens["viewer"]); got != "cancelled, archived: history does not answer, so only how it ended can be told" {
		t.Errorf("history does not answer: %s", got)
	}
	if got := get(inQueue); got != string(ares.Unavailable) {
		t.Errorf("history does not answer, and it may be of the caller's queue: %s", got)
	}
}

// TestStreamsEndWithoutHistory checks that a stream about a job ends once its caller loses the permission.
// The stream must end even while the server cannot tell whether the job exists.
func TestStreamsEndWithoutHistory(t *testing.T) {
	e := newEstate(t)
	must(t, e.past.Close())
	const logs = apipb.JobService_StreamLogs_FullMethodName
	ctx, err := admit(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer "+e.tokens["viewer"])), e.Pipeline, logs)
	must(t, err)
	for tenant, ends := range map[string]bool{"a": false, "b": true} {
		var req any = &apipb.StreamLogsRequest{JobId: e.jobs[tenant]}
		if err := e.RecheckCaller(ctx, callAs(ctx, logs, req)); (err != nil) != ends {
			t.Errorf("a stream about a job of tenant %s: %v", tenant, err)
		}
	}
}

// TestStatusTellsOfHistory checks that the server status tells an operator when
// the history database does not answer.
func TestStatusTellsOfHistory(t *testing.T) {
	e := newEstate(t)
	a := e.do("GET", "/api/v1/server/status", nil)
	for range 20 { // on a busy machine, the history may take longer than the call waits for it
		if a.json["history_error"] == "" {
			break
		}
		a = e.do("GET", "/api/v1/server/status", nil)
	}
	if a.code != 200 || a.json["history_error"] != "" {
		t.Errorf("a history that answers: %d %s", a.code, a.body)
	}
	must(t, e.past.Close())
	if a := e.do("GET", "/api/v1/server/status", nil); a.code != 200 || a.json["history_error"] != "history is closed" {
		t.Errorf("a history that does not: %d %s", a.code, a.body)
	}
	base := historytest.SQLite(t)
	must(t, base.Open(t).Ready(t.Context()))
	base.DownTo(t, 2)
	another, err := base.Raw.BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = another.Rollback() }()
	_, err = another.ExecContext(t.Context(), "DELETE FROM jobs") // the update waits for this statement
	must(t, err)
	e.cfg.Accounting.History = base.Open(t)
	if a := e.do("GET", "/api/v1/server/status", nil); a.code != 200 || a.json["history_error"] != "" || a.json["history_updating"] != true {
		t.Errorf("a history with tables of an earlier version: %d %s", a.code, a.body)
	}
	must(t, another.Rollback())
	must(t, e.cfg.Accounting.History.Ready(t.Context()))
	if a := e.do("GET", "/api/v1/server/status", nil); a.code != 200 || a.json["history_error"] != "" || a.json["history_updating"] != false {
		t.Errorf("a history that is up to date: %d %s", a.code, a.body)
	}
}
