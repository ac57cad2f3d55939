package history_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// entriesOf returns the stored audit entries of one server.
func entriesOf(t *testing.T, s audit.Sink, server string) []audit.Entry {
	t.Helper()
	all := listed(t, s.(history.AuditEntries), audit.Query{OldestFirst: true, Limit: 3})
	return slices.DeleteFunc(all, func(e audit.Entry) bool { return e.Server != server })
}

// This function reads all pages of a query's result and returns their entries.
func listed(t *testing.T, d history.AuditEntries, q audit.Query) (all []audit.Entry) {
	t.Helper()
	var after *history.AuditCursor
	for {
		page, more, err := d.List(t.Context(), q, after)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if !more {
			return all
		}
		last := page[len(page)-1]
		after = &history.AuditCursor{At: last.Time, Server: last.Server, Sequence: last.Sequence}
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// This function returns the audit log of a server, with n entries at intervals of one second.
func chained(server string, n int) []audit.Entry {
	var out []audit.Entry
	for i := 1; i <= n; i++ {
		out = append(out, audit.Entry{
			Sequence: uint64(i), Server: server, Time: noon.Add(time.Duration(i) * time.Second), Action: "SUBMIT_JOB", Status: audit.Done,
			Previous: fmt.Sprint(server, i-1), Hash: fmt.Sprint(server, i),
		})
	}
	return out
}

func taken(t *testing.T, d history.AuditEntries, entries []audit.Entry) {
	t.Helper()
	if err := d.Take(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

func names(entries []audit.Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprint(e.Server, e.Sequence))
	}
	return strings.Join(out, " ")
}

// theLastEntryIsAMark checks that the last shipped entry of a server is returned with its hash, whatever other servers have shipped.
func theLastEntryIsAMark(t *testing.T, d history.AuditEntries) {
	none, err := d.LastMark(t.Context(), "a")
	if err != nil || none.Sequence != 0 || none.Origin == "" {
		t.Errorf("%+v, %v", none, err)
	}
	taken(t, d, chained("b", 5))
	taken(t, d, chained("a", 3))
	got, err := d.LastMark(t.Context(), "a")
	if err != nil || got.Sequence != 3 || got.Hash != "a3" || !got.Time.Equal(noon.Add(3*time.Second)) || got.Server != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func serversAreListedTogether(t *testing.T, d history.AuditEntries) {
	taken(t, d, chained("b", 3))
	taken(t, d, chained("a", 3))
	const want = "b3 a3 b2 a2 b1 a1"
	for limit := range 7 {
		if got := names(listed(t, d, audit.Query{Limit: limit})); got != want {
			t.Errorf("by %d the latest first: %s, want %s", limit, got, want)
		}
	}
	if got := names(listed(t, d, audit.Query{Limit: 2, OldestFirst: true})); got != "a1 b1 a2 b2 a3 b3" {
		t.Errorf("the oldest first: %s", got)
	}
}

// queriesFindWhatTheLogWould runs the same queries on the database and with audit.Query.Matches. Both must select the
// same entries.
func queriesFindWhatTheLogWould(t *testing.T, d history.AuditEntries) {
	entries := chained("s", 40)
	for i := range entries {
		e := &entries[i]
		e.Action = []string{"SUBMIT_JOB", "CREATE_QUEUE", "(others)"}[i%3]
		e.User, e.Tenant = []string{"ann", "bob"}[i%2], []string{"", "red", "Red", "blue"}[i%4]
		e.Object = []string{"queue/red/night", "queue/", "queue", "queue0", "queues/x", "job-1", ""}[i%7]
		e.Status, e.Code = audit.Statuses()[i%3], []string{"", "forbidden"}[i%2]
	}
	taken(t, d, entries)
	for _, q := range []audit.Query{
		{},
		{User: "ann"},
		{Action: "submit_job"},
		{Action: "(Others)"},
		{Object: "queue/"},
		{Object: "queue"},
		{Object: "queue/red/night"},
		{Object: "queue/red/"},
		{Tenants: []string{}},
		{Tenants: []string{"red"}},
		{Tenants: []string{"red", "blue"}},
		{Tenants: []string{""}},
		{Status: audit.Refused},
		{Code: "forbidden"},
		{Since: noon.Add(5 * time.Second)},
		{Until: noon.Add(5 * time.Second)},
		{User: "bob", Status: audit.Done, Since: noon.Add(time.Second), Until: noon.Add(time.Minute)},
	} {
		q.OldestFirst, q.Limit = true, 7
		var want []audit.Entry
		for i := range entries {
			if q.Matches(&entries[i]) {
				want = append(want, entries[i])
			}
		}
		if got := listed(t, d, q); !slices.Equal(got, want) {
			t.Errorf("%+v finds %s, want %s", q, names(got), names(want))
		}
	}
}

// anotherLogIsRefused checks that entries of another log with the same server name are rejected. A server may lose
// its data directory and start a new audit log under its old name. The new entries must not be skipped silently.
func anotherLogIsRefused(t *testing.T, d history.AuditEntries) {
	taken(t, d, chained("s", 3))
	other := chained("s", 6)
	for i := range other {
		other[i].Previous, other[i].Hash = "other "+other[i].Previous, "other "+other[i].Hash
	}
	for name, part := range map[string][]audit.Entry{"over the end": other, "behind the end": other[3:], "the end": other[2:3]} {
		if err := d.Take(t.Context(), part); ares.CodeOf(err) != ares.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Take(t.Context(), append(chained("s", 4)[3:], chained("t", 1)...)); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("two servers together: %v", err)
	}
	if got := names(listed(t, d, audit.Query{OldestFirst: true})); got != "s1 s2 s3" {
		t.Errorf("there are %s", got)
	}
}

// oldEntriesGo checks that the last entry of each server is never pruned, so that shipping continues after it.
func oldEntriesGo(t *testing.T, d history.AuditEntries) {
	taken(t, d, chained("a", 1200)) // more than one transaction removes
	taken(t, d, chained("b", 3))
	if n, err := d.Prune(t.Context(), noon.Add(1199*time.Second)); n != 1198+2 || err != nil {
		t.Fatal(n, err)
	}
	if got := names(listed(t, d, audit.Query{OldestFirst: true})); got != "b3 a1199 a1200" {
		t.Errorf("there are %s", got)
	}
	if n, err := d.Prune(t.Context(), noon.Add(time.Hour)); n != 1 || err != nil {
		t.Error(n, err)
	}
	taken(t, d, chained("b", 5))
	if got := names(listed(t, d, audit.Query{OldestFirst: true})); got != "b3 b4 b5 a1200" {
		t.Errorf("there are %s", got)
	}
}

// TestAuditOutlastsItsDatabase kills the database while a log is being shipped. Recording must not wait for the database. In the
// end, history must hold every entry exactly once.
func TestAuditOutlastsItsDatabase(t *testing.T) {
	server := historytest.StartPostgres(t)
	entries := history.AuditEntries{History: server.New(t).Open(t)}
	log, err := audit.Open(audit.Config{Dir: t.TempDir(), Server: "s"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = log.Run(ctx) })
	record := func(n int) {
		t.Helper()
		for range n {
			if bad := log.Record(ctx, audit.Entry{Action: "SUBMIT_JOB", Status: audit.Done}); bad != nil {
				t.Fatal(bad)
			}
		}
	}
	shipper := &audit.Shipper{Log: log, Sink: entries}
	record(20)
	if err = shipper.Ship(ctx); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	record(20)
	if err = shipper.Ship(ctx); ares.CodeOf(err) != ares.Unavailable || shipper.Behind() < 20 {
		t.Fatalf("without the database: %v, %d behind", err, shipper.Behind())
	}
	server.Start()
	record(20)
	if err = shipper.Ship(ctx); err != nil || shipper.Behind() != 0 {
		t.Fatalf("with it: %v, %d behind", err, shipper.Behind())
	}
	seq, _ := log.Position()
	got := entriesOf(t, entries, "s")
	if uint64(len(got)) != seq {
		t.Errorf("%d of %d entries are there", len(got), seq)
	}
	slices.SortFunc(got, func(a, b audit.Entry) int { return int(a.Sequence) - int(b.Sequence) })
	for i := range got {
		hash := got[i].Hash
		if _, err = got[i].Line(); err != nil || got[i].Sequence != uint64(i+1) || got[i].Hash != hash {
			t.Fatalf("entry %d is the %dth with the hash %s, not %s: %v", got[i].Sequence, i+1, hash, got[i].Hash, err)
		}
	}
}
