package store_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestARollbackEndsLeading(t *testing.T) {
	other, _ := mustIdentity(t, storetest.Embedded(t))
	for name, open := range map[string]func(testing.TB) *store.Store{
		"embedded": storetest.Embedded,
		"external": func(tb testing.TB) *store.Store { return storetest.External(tb).Open(tb) },
	} {
		t.Run(name, func(t *testing.T) { storetest.ARollbackEndsLeading(t, open(t), other) })
	}
}

func noteRollback(t *testing.T, s *store.Store) store.Identity {
	t.Helper()
	id, revision := mustIdentity(t, s)
	if _, err := s.NoteRollback(t.Context(), id, store.Rollback{Server: "server-1", Seen: revision + 1, Found: revision, At: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestRestoreEndsARollback backs up a store in which a rollback is recorded. A restore of this backup, in each form, must lead
// to a store that can be led.
func TestRestoreEndsARollback(t *testing.T) {
	old := storetest.External(t).Open(t)
	storetest.NewJob(t, old)
	id := noteRollback(t, old)
	file := backup(t, old)
	for name, r := range map[string]store.Restoration{"restored": {File: file}, "copy": {File: file, AsCopy: true}} {
		t.Run(name, func(t *testing.T) {
			s, _ := restored(t, r)
			leads(t, s)
			// A server that noticed the rollback before the restore writes its record late.
			_, err := s.NoteRollback(t.Context(), id, store.Rollback{Server: "server-1", Seen: 2, Found: 1, At: storetest.Noon})
			if ares.CodeOf(err) != ares.Fenced {
				t.Errorf("the rollback of the store before its restore: %v", err)
			}
			leads(t, s)
			noteRollback(t, s)
			if is, _ := mustIdentity(t, s); is.RolledBack == nil {
				t.Error("a restored store that was rolled back is not found")
			}
		})
	}
	t.Run("prepared", func(t *testing.T) {
		prepared := filepath.Join(t.TempDir(), "prepared")
		var out bytes.Buffer
		if _, err := store.Prepare(t.Context(), filepath.Join(t.TempDir(), "work"), &out, store.Restoration{File: file, Now: storetest.Noon}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(prepared, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		leads(t, storetest.RestoredMember(t, prepared).Open(t))
	})
}

// leads checks that a store has no record of a rollback and elects a leader.
func leads(t *testing.T, s *store.Store) {
	t.Helper()
	if left := storetest.Records(t, s, "loop/rollback"); len(left) > 0 {
		t.Errorf("the store has %v", left)
	}
	_, resign := storetest.NewLead(t, s)
	resign()
}

// TestACampaignComparesTheRollback records a rollback at the last moment: after the candidate has read the identity, and before
// it creates the leader's key.
func TestACampaignComparesTheRollback(t *testing.T) {
	etcd := storetest.External(t)
	s := etcd.Open(t)
	id, revision := mustIdentity(t, s)
	reads := 0
	candidate, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints, Timeout: time.Minute, Observe: func(op string, _ time.Duration, _ error) {
		if op != "read the identity" {
			return
		}
		if reads++; reads > 1 {
			return
		}
		if _, err := s.NoteRollback(t.Context(), id, store.Rollback{Server: "server-1", Seen: revision + 1, Found: revision, At: storetest.Noon}); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, candidate) })
	err = candidate.Lead(t.Context(), "server-2", time.Minute, func(context.Context, *store.Leadership) error {
		t.Error("a server leads a store that was rolled back")
		return nil
	})
	if ares.CodeOf(err) != ares.Unavailable || reads < 2 {
		t.Errorf("the candidate is answered %v after %d reads", err, reads)
	}
}

// TestARollbackIsOfOneIdentity writes records of rollbacks that have other identities, as a restore with an earlier version
// leaves them, or another tool that merges backups. They have no effect.
func TestARollbackIsOfOneIdentity(t *testing.T) {
	etcd := storetest.External(t)
	s, raw := etcd.Open(t), etcd.Client(t)
	id := noteRollback(t, s)
	key := "/ares/loop/rollback/" + id.Store + "/" + id.Restore
	got, err := raw.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%s: %v, %v", key, got, err)
	}
	if _, err = raw.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{id.Store + "/ANOTHERRESTORE", "ANOTHERSTORE/" + id.Restore, id.Store, ""} {
		if _, err = raw.Put(t.Context(), strings.TrimSuffix("/ares/loop/rollback/"+of, "/"), string(got.Kvs[0].Value)); err != nil {
			t.Fatal(err)
		}
	}
	if is, _ := mustIdentity(t, s); is.RolledBack != nil {
		t.Errorf("a record of another identity counts: %+v", is.RolledBack)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	led := false
	err = s.Lead(ctx, "server-1", time.Minute, func(context.Context, *store.Leadership) error { led = true; return nil })
	if err != nil || !led {
		t.Errorf("no server leads: %v", err)
	}
}
