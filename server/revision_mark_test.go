package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestRevisionMark checks when a mark rejects a store, and that the mark survives a restart.
func TestRevisionMark(t *testing.T) {
	dir := t.TempDir()
	open := func() *revisionMark {
		t.Helper()
		m, err := readMark(dir)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := open()
	if err := m.write(); err != nil || m.store != "" {
		t.Fatalf("nothing was seen: %+v, %v", m, err)
	}
	for _, c := range []struct {
		name, store, restore string
		revision             int64
		ok                   bool
	}{
		{"the first store", "a", "", 10, true},
		{"later", "a", "", 20, true},
		{"again", "a", "", 20, true},
		{"rolled back", "a", "", 19, false},
		{"still rolled back", "a", "", 19, false},
		{"restored with a small bump", "a", "r", 19, false},
		{"restored", "a", "r", 1000, true},
		{"another store", "b", "", 5, true},
		{"the other store, rolled back", "b", "", 4, false},
	} {
		var why *ares.Error
		if r := m.compare(m.seen(), c.store, c.revision); r != nil {
			why = r.Refusal(c.restore)
		}
		if (why == nil) != c.ok {
			t.Errorf("%s: %v", c.name, why)
		}
		if why != nil && (ares.CodeOf(why) != ares.Unavailable || !strings.Contains(why.Error(), "earlier time") || strings.Contains(why.Error(), "--revision-bump") != (c.restore != "")) {
			t.Errorf("%s: %v", c.name, why)
		}
		if err := m.write(); err != nil {
			t.Fatal(err)
		}
		if again := open(); again.store != m.store || again.revision != m.revision || again.written != m.revision {
			t.Errorf("%s: after a restart the mark is %+v, was %+v", c.name, again, m)
		}
	}
	m.raise(50)
	if m.compare(m.seen(), "b", 49) == nil {
		t.Error("a revision that was seen in a watch does not count")
	}
	if err := os.WriteFile(m.path, []byte("b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := readMark(dir); err == nil || again.compare(again.seen(), "b", 1) != nil {
		t.Errorf("a mark that is cut off: %+v, %v", again, err)
	}
}

// TestMarksComparedAtOnce lets a comparison read the store slowly while the mark is raised by others. The own progress of a server
// must not look like a rollback. A rollback must be noticed in every order of the reads.
func TestMarksComparedAtOnce(t *testing.T) {
	m := &revisionMark{path: filepath.Join(t.TempDir(), RevisionMarkFile), written: -1}
	first := m.seen()
	if why := m.compare(m.seen(), "a", 10); why != nil { // another comparison is faster, on a server without a mark
		t.Fatal(why)
	}
	if why := m.compare(first, "a", 9); why != nil || m.revision != 10 {
		t.Errorf("a slow first read: %v, the mark is %d", why, m.revision)
	}
	slow := m.seen()
	m.raise(30) // the watch
	if why := m.compare(m.seen(), "a", 40); why != nil {
		t.Fatal(why)
	}
	if why := m.compare(slow, "a", 12); why != nil || m.revision != 40 {
		t.Errorf("a slow read during the server's own writes: %v, the mark is %d", why, m.revision)
	}
	if why := m.compare(slow, "a", 9); why == nil {
		t.Error("a rollback was not noticed by a slow read")
	}
	if why := m.compare(m.seen(), "a", 39); why == nil {
		t.Error("a rollback was not noticed")
	}
	// Many goroutines read one store that advances. None may raise an alarm, and the mark must be the last revision.
	var store atomic.Int64
	store.Store(100)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				before := m.seen()
				revision := store.Add(1)
				runtime.Gosched()
				if why := m.compare(before, "a", revision); why != nil {
					t.Error(why)
					return
				}
			}
		})
	}
	wg.Wait()
	if m.revision != store.Load() {
		t.Errorf("the mark is %d, the store is at %d", m.revision, store.Load())
	}
}

// TestEveryServerHasItsOwnMark starts two servers of one store after each other. Each notices a rollback by its own mark. The mark of
// another store and a missing mark are no alarm, and are replaced.
func TestEveryServerHasItsOwnMark(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var marks []*revisionMark
	for i, dir := range dirs {
		m, err := readMark(dir)
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, m)
		store, revision := "a", int64(100+i)
		if i == 2 {
			store, revision = "another", 1_000_000
		}
		if why := m.compare(m.seen(), store, revision); why != nil || m.write() != nil {
			t.Fatal(why)
		}
	}
	for i, want := range []bool{true, false, true} { // the store "a" is put back to revision 100
		m, err := readMark(dirs[i])
		if err != nil {
			t.Fatal(err)
		}
		if why := m.compare(m.seen(), "a", 100); (why == nil) != want {
			t.Errorf("server %d: %v", i, why)
		}
	}
	if err := os.Remove(marks[1].path); err != nil {
		t.Fatal(err)
	}
	m, err := readMark(dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	if why := m.compare(m.seen(), "a", 100); why != nil || m.write() != nil {
		t.Errorf("without a mark: %v", why)
	}
	if again, err := readMark(dirs[1]); err != nil || again.seen() != (seenRevision{"a", 100}) {
		t.Errorf("the new mark is %+v, %v", again, err)
	}
}

// TestMarkIsWrittenOnce checks that the mark is written only after a change, and that a full disk is reported once.
func TestMarkIsWrittenOnce(t *testing.T) {
	m := &revisionMark{path: filepath.Join(t.TempDir(), "gone", RevisionMarkFile), written: -1}
	if m.compare(m.seen(), "a", 1) != nil || m.write() == nil || m.write() != nil {
		t.Error("a failure must be reported once")
	}
	if err := os.Mkdir(filepath.Dir(m.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := m.write(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.path); err != nil {
		t.Fatal(err)
	}
	if err := m.write(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.path); err == nil {
		t.Error("an unchanged mark was written again")
	}
}

func startForMark(t *testing.T, dir string) *Server {
	t.Helper()
	cfg := Default()
	cfg.DataDir = dir
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestAStoreRolledBackIsNoticedByTheServer puts yesterday's store back. The server must notice it without the help of an agent, and must
// not lead. After `ares restore` it must lead again.
func TestAStoreRolledBackIsNoticedByTheServer(t *testing.T) {
	dir := t.TempDir()
	s := startForMark(t, dir)
	s.Close()
	saved := filepath.Join(t.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(storeDir(dir))); err != nil {
		t.Fatal(err)
	}
	s = startForMark(t, dir)
	awaitLeader(t, s, s.name)
	for range 20 {
		storetest.NewTenant(t, s.Store)
	}
	s.Close()
	if err := os.RemoveAll(storeDir(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(storeDir(dir), os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	s = startForMark(t, dir)
	why := s.ready(t.Context())
	if n, ok := errors.AsType[*service.NotReady](why); !ok || !strings.Contains(n.Word, "earlier time") || !strings.Contains(why.Error(), "ares backup") {
		t.Fatalf("the server is %v", why)
	}
	if leader, err := s.Store.Leader(t.Context()); err != nil || leader == s.name {
		t.Errorf("the leader is %q, %v", leader, err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	out, err := os.Create(file)
	if err == nil {
		err = errors.Join(s.Store.Backup(t.Context(), out), out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	// A restore that raises the revisions by too little would issue the same tokens again.
	if _, err = Restore(t.Context(), dir, Restoration{File: file, Bump: 1, Force: true, Hold: time.Millisecond}); ares.CodeOf(err) != ares.Invalid ||
		!strings.Contains(err.Error(), "--revision-bump") {
		t.Errorf("a small bump is answered %v", err)
	}
	if _, err = Restore(t.Context(), dir, Restoration{File: file, Force: true, Hold: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	s = startForMark(t, dir)
	awaitLeader(t, s, s.name)
	if err = s.ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// awaitLeader waits until the store names a leader. The view does not show who leads, so the store is asked again and again.
func awaitLeader(t *testing.T, s *Server, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		leader, err := s.Store.Leader(ctx)
		if err == nil && leader == name {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the leader is %q, %v", leader, err)
		case <-tick.C:
		}
	}
}

// TestAClaimOfAnAgentDeposesNobody opens a session as a hostile node does, with a revision of the far future. The node gets no session,
// an alert names it, and the server leads on.
func TestAClaimOfAnAgentDeposesNobody(t *testing.T) {
	s := startForMark(t, t.TempDir())
	awaitLeader(t, s, s.name)
	id, _, err := s.Store.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(s.Endpoints.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	bearing := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	}
	open := func(node string, fence int64) error {
		_, err := apipb.NewAgentServiceClient(conn).OpenSession(bearing(s.NodeToken), &apipb.OpenSessionRequest{
			Node: &apipb.NodeInfo{NodeId: node}, Instance: "0123456789abcdef", StoreId: id.Store, HighestFence: fence,
		})
		return apipb.FromStatus(err)
	}
	for _, fence := range []int64{1 << 62, 1<<63 - 1, 1 << 40} {
		if err = open("hostile", fence); ares.CodeOf(err) != ares.Fenced {
			t.Errorf("revision %d is answered %v", fence, err)
		}
	}
	if err = s.ready(t.Context()); err != nil {
		t.Errorf("the server is not ready: %v", err)
	}
	if leader, bad := s.Store.Leader(t.Context()); bad != nil || leader != s.name {
		t.Errorf("the leader is %q, %v", leader, bad)
	}
	if now, _, bad := s.Store.Identity(t.Context()); bad != nil || now.RolledBack != nil {
		t.Errorf("the claim is recorded as a rollback: %+v, %v", now.RolledBack, bad)
	}
	admin, err := os.ReadFile(s.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	alert := func() string {
		t.Helper()
		got, err := apipb.NewClusterServiceClient(conn).GetClusterStatus(bearing(strings.TrimSpace(string(admin))), &apipb.GetClusterStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetAlert()
	}
	if got := alert(); !strings.Contains(got, "hostile") {
		t.Errorf("the alert is %q", got)
	}
	if err = open("hostile", 0); err != nil || alert() != "" {
		t.Errorf("repaired: %v, the alert is %q", err, alert())
	}
}

// TestAheadNodes checks that the alert names few nodes and ends.
func TestAheadNodes(t *testing.T) {
	var a aheadNodes
	now := time.Unix(1_700_000_000, 0)
	for i := range 100 {
		a.note("node-"+strings.Repeat("x", i), true, now)
	}
	if got := a.alert(now); len(a.nodes) != maxAhead || !strings.Contains(got, "and others") {
		t.Errorf("%d nodes: %s", len(a.nodes), got)
	}
	a.note("node-", false, now)
	if strings.Contains(a.alert(now), "node-,") {
		t.Error("a node that was accepted is still named")
	}
	if got := a.alert(now.Add(aheadFor)); got != "" {
		t.Errorf("an hour later: %s", got)
	}
}
