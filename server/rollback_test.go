package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func startAt(t *testing.T, dir string, etcd *storetest.Etcd) *Server {
	t.Helper()
	cfg := Default()
	cfg.DataDir = dir
	cfg.Etcd.Endpoints = etcd.Endpoints
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// awaitRefusal waits until a server is not ready because of a rollback, and checks that the reason contains some words.
func awaitRefusal(t *testing.T, s *Server, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		why := s.ready(ctx)
		n, ok := errors.AsType[*service.NotReady](why)
		if ok && strings.Contains(n.Word, "earlier time") {
			for _, w := range append(words, "earlier time", "ares backup", "ares restore") {
				if !strings.Contains(why.Error(), w) {
					t.Errorf("the reason does not contain %q: %v", w, why)
				}
			}
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the server does not refuse to lead: it is %v", why)
		case <-tick.C:
		}
	}
}

// mayNotLead checks that a store has no leader and elects none.
func mayNotLead(t *testing.T, s *store.Store) {
	t.Helper()
	if leader, err := s.Leader(t.Context()); err != nil || leader != "" {
		t.Errorf("the leader is %q, %v", leader, err)
	}
	err := s.Lead(t.Context(), "another", time.Minute, func(context.Context, *store.Leadership) error {
		t.Error("another server leads")
		return nil
	})
	if ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "earlier time") {
		t.Errorf("a candidate is answered %v", err)
	}
}

// twoServersAfterARollback returns the data directories of two servers and an etcd. The store was put back by some revisions
// since the first server has seen it, but not since the second one has.
func twoServersAfterARollback(t *testing.T) (first, second string, etcd *storetest.Etcd) {
	t.Helper()
	first, second = t.TempDir(), t.TempDir()
	data, saved := filepath.Join(t.TempDir(), "etcd"), filepath.Join(t.TempDir(), "saved")
	etcd = storetest.ExternalIn(t, data)
	startAt(t, first, etcd).Close()
	startAt(t, second, etcd).Close()
	etcd.Kill()
	if err := os.CopyFS(saved, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	etcd = storetest.ExternalIn(t, data)
	s := startAt(t, first, etcd)
	awaitLeader(t, s, s.name)
	for range 60 {
		storetest.NewTenant(t, s.Store)
	}
	s.Close()
	etcd.Kill()
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(saved))); err != nil {
		t.Fatal(err)
	}
	return first, second, storetest.ExternalIn(t, data)
}

// TestOneServerNoticesARollbackForAll starts two servers on a store that was put back. Only the first one can see that by its
// own mark, and the second one already leads. When the first one has noticed the rollback, the second one must step down. It
// must not lead again after a restart, even if the store has passed all marks, until the store is restored.
func TestOneServerNoticesARollbackForAll(t *testing.T) {
	firstDir, secondDir, etcd := twoServersAfterARollback(t)
	second := startAt(t, secondDir, etcd)
	awaitLeader(t, second, second.name) // nothing shows the rollback yet
	first := startAt(t, firstDir, etcd)
	awaitRefusal(t, first)
	awaitRefusal(t, second, "server "+first.name+" has seen revision")
	mayNotLead(t, second.Store)
	for range 100 { // as agents do that connect again
		storetest.NewTenant(t, second.Store)
	}
	first.Close()
	second.Close()
	second = startAt(t, secondDir, etcd)
	awaitRefusal(t, second, "server "+first.name)
	mayNotLead(t, second.Store)
	name := first.name
	first = startAt(t, firstDir, etcd) // the store has passed its mark, too
	awaitRefusal(t, first, "server "+name)

	file, prepared := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "prepared")
	if err := WriteWhole(file, false, func(w io.Writer) error { return first.Store.Backup(t.Context(), w) }); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second.Close()
	if _, err := PrepareRestore(t.Context(), prepared, Restoration{File: file, Hold: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	second = startAt(t, secondDir, storetest.RestoredMember(t, prepared))
	awaitLeader(t, second, second.name)
	if err := second.ready(t.Context()); err != nil {
		t.Error(err)
	}
	if left := storetest.Records(t, second.Store, "loop/rollback"); len(left) > 0 {
		t.Errorf("the restored store has %v", left)
	}
}

// TestSeveralServersNoticeARollback starts two servers whose marks are both higher than the revision of the store.
func TestSeveralServersNoticeARollback(t *testing.T) {
	firstDir, secondDir, etcd := twoServersAfterARollback(t)
	mark, err := os.ReadFile(filepath.Join(firstDir, RevisionMarkFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(secondDir, RevisionMarkFile), mark, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	first, second := startAt(t, firstDir, etcd), startAt(t, secondDir, etcd)
	awaitRefusal(t, first, "this server has seen")
	awaitRefusal(t, second, "server "+first.name)
	mayNotLead(t, first.Store)
	if noted := storetest.Records(t, first.Store, "loop/rollback"); len(noted) != 1 || !strings.Contains(noted[0].JSON, first.name) {
		t.Errorf("the records are %v", noted)
	}
}

// TestAnUnwrittenRollbackIsRemembered lets the store pass the mark before it takes the record of the rollback.
func TestAnUnwrittenRollbackIsRemembered(t *testing.T) {
	s := startForMark(t, t.TempDir())
	awaitLeader(t, s, s.name)
	id, revision, err := s.Store.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	restored := id
	restored.Restore = "an earlier restore"
	what := store.Rollback{Seen: revision + 1, Found: revision}
	s.unnoted.Store(&unnotedRollback{of: restored, what: what, at: time.Now()})
	if err = s.checkMark(t.Context()); err != nil {
		t.Errorf("a rollback from before the restore: %v", err)
	}
	s.refuseToLead(what.Refusal(""))
	s.unnoted.Store(&unnotedRollback{of: id, what: what, at: time.Now()})
	storetest.NewTenant(t, s.Store)
	if err = s.checkMark(t.Context()); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("the rollback is forgotten: %v", err)
	}
	mayNotLead(t, s.Store)
}

// TestAServerComparesBeforeItWrites starts a server on a store that has lost a single revision. The server writes more than that
// at its start.
func TestAServerComparesBeforeItWrites(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(t.Context(), store.Config{Dir: storeDir(dir), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	id, revision, err := st.Identity(t.Context())
	if err == nil {
		err = st.Close()
	}
	if err == nil {
		err = (&revisionMark{path: filepath.Join(dir, RevisionMarkFile), store: id.Store, revision: revision + 1, written: -1}).write()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := startForMark(t, dir)
	awaitRefusal(t, s, "has seen revision")
	mayNotLead(t, s.Store)
}
