package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// This function writes a backup of a store into a file and verifies the checksum.
func backup(t *testing.T, s *store.Store) string {
	t.Helper()
	var data bytes.Buffer
	if err := s.Backup(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	n := data.Len() - sha256.Size
	if n <= 0 || sha256.Sum256(data.Bytes()[:n]) != [sha256.Size]byte(data.Bytes()[n:]) {
		t.Fatalf("a backup of %d bytes does not end with its sum", data.Len())
	}
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// This function restores a backup and opens the resulting store.
func restored(t *testing.T, r store.Restoration) (*store.Store, store.Restored) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	r.Now = storetest.Noon
	done, err := store.Restore(t.Context(), dir, r)
	if err != nil {
		t.Fatal(err)
	}
	s := openDir(t, dir)
	t.Cleanup(func() { closeStore(t, s) })
	return s, done
}

func mustIdentity(t *testing.T, s *store.Store) (store.Identity, int64) {
	t.Helper()
	id, rev, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id, rev
}

// A `world` holds the jobs of a store that the tests back up: waiting, running and cancelled jobs.
type world struct {
	node                                       *storetest.Node
	waiting, running, once, cancelled, retired *ares.Job
	seats                                      []store.SeatRef
}

func populate(t *testing.T, s *store.Store) *world {
	t.Helper()
	lead, resign := storetest.NewLead(t, s)
	defer resign()
	w := &world{node: storetest.NewNode(t, s)}
	once := func(spec *ares.Spec) { spec.Mode, spec.LostAfterSeconds = ares.AtMostOnce, 77 }
	w.waiting, w.running, w.once = storetest.NewJob(t, s), storetest.NewJob(t, s), storetest.NewJob(t, s, once)
	w.cancelled, w.retired = storetest.NewJob(t, s), storetest.NewJob(t, s)
	for _, j := range []*ares.Job{w.running, w.once, w.cancelled, w.retired} {
		seats := storetest.Place(t, s, lead, j, w.node)
		storetest.Claim(t, s, seats, w.node)
		w.seats = append(w.seats, seats...)
	}
	if _, err := s.RequestStop(t.Context(), w.cancelled.ID, ares.Stop{Why: ares.StopCancel, By: "somebody", At: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRestoreWaitsForJobsOfAnEarlierVersion restores a backup without jobs. Jobs that were accepted after the backup may have the longer
// default of an earlier version.
func TestRestoreWaitsForJobsOfAnEarlierVersion(t *testing.T) {
	old := storetest.Embedded(t)
	storetest.NewJob(t, old, func(s *ares.Spec) { s.LostAfterSeconds = 12 })
	_, done := restored(t, store.Restoration{File: backup(t, old)})
	if done.Hold != ares.EarlierLostAfter {
		t.Errorf("nothing is placed for %s, want %s", done.Hold, ares.EarlierLostAfter)
	}
}

func TestRestoreCutsTheTimeBeforeOff(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *store.Store{
		"embedded": storetest.Embedded,
		"external": func(tb testing.TB) *store.Store { return storetest.External(tb).Open(tb) },
	} {
		t.Run(name, func(t *testing.T) {
			old := open(t)
			w := populate(t, old)
			was, _ := mustIdentity(t, old)
			file := backup(t, old)
			// Continue to use the store after the backup. The restore will lose the
			// changes that follow.
			younger := storetest.NewJob(t, old)
			lead, resign := storetest.NewLead(t, old)
			lost := storetest.Place(t, old, lead, w.waiting, w.node)
			resign()

			s, done := restored(t, store.Restoration{File: file, Ended: []store.Ended{
				{Job: w.retired.ID, Accepted: storetest.Get(t, old, w.retired.ID).Job.Revision, Digest: w.retired.Digest, Phase: ares.Failed, At: storetest.Noon},
				{Job: younger.ID, Accepted: storetest.Get(t, old, younger.ID).Job.Revision, Digest: younger.Digest, Phase: ares.Succeeded, At: storetest.Noon},
			}})
			if done.Jobs != 2 || done.Lost != 3 || done.Final != 2 || done.Hold != 77*time.Second {
				t.Errorf("it did %+v", done)
			}
			is, rev := mustIdentity(t, s)
			if is.Store != was.Store || is.Restore == was.Restore {
				t.Errorf("the identity is %+v, was %+v", is, was)
			}
			if rev < int64(lost[0].Fence)+store.DefaultBump/2 || rev != done.Revision {
				t.Errorf("the revision is %d (said %d), a fence of %d was given out", rev, done.Revision, lost[0].Fence)
			}
			for _, room := range []string{"sessions/", "leases/", "loop/leader", "progress/"} {
				if left := storetest.Records(t, s, room); len(left) > 0 {
					t.Errorf("left in %s: %v", room, left)
				}
			}
			for job, want := range map[*ares.Job]ares.Phase{
				w.waiting: ares.Pending, w.running: ares.Pending, w.once: ares.Lost, w.cancelled: ares.Cancelled,
			} {
				if run := storetest.Get(t, s, job.ID).Run; run.Phase != want || want != ares.Pending && !run.Phase.Final() {
					t.Errorf("%s is %s (%s), want %s", job.ID, run.Phase, run.Reason, want)
				}
			}
			for job, want := range map[*ares.Job]ares.Phase{w.retired: ares.Failed, younger: ares.Succeeded} {
				if tomb := storetest.Get(t, s, job.ID).Tombstone; tomb == nil || tomb.Phase != want || tomb.Digest != job.Digest {
					t.Errorf("%s: %+v, want %s", job.ID, tomb, want)
				}
			}
			newLife(t, s, w, lost[0].Fence)
		})
	}
}

// newLife uses a restored store. The function checks that old fences are rejected and that seats
// are freed. New fences must be higher than all earlier ones.
func newLife(t *testing.T, s *store.Store, w *world, last ares.Fence) {
	t.Helper()
	if _, err := s.Finish(t.Context(), w.seats[0], storetest.Result(ares.OutcomeSucceeded), storetest.Noon); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("a result from before the restore: %v", err)
	}
	run := storetest.Get(t, s, w.running.ID).Run
	if run.Settled() {
		t.Error("its seat is settled, though nobody said that nothing lives there")
	}
	w.node.Open(t, s, 5*time.Minute)
	storetest.Release(t, s, w.seats[0])
	lead, _ := storetest.NewLead(t, s)
	for _, job := range []*ares.Job{w.running, w.waiting} {
		if seats := storetest.Place(t, s, lead, job, w.node); seats[0].Fence <= last+store.DefaultBump/2 {
			t.Errorf("fence %d after %d was given out", seats[0].Fence, last)
		}
	}
}

func TestFirstLeaderAfterARestoreWaits(t *testing.T) {
	old := storetest.Embedded(t)
	if h, err := old.Hold(t.Context()); h != nil || err != nil {
		t.Errorf("a new store has something to wait for: %v, %v", h, err)
	}
	s, done := restored(t, store.Restoration{File: backup(t, old), Hold: 5 * time.Minute})
	h, err := s.Hold(t.Context())
	if err != nil || h == nil || h.For != 5*time.Minute || h.Snapshot != done.Snapshot {
		t.Fatalf("got %+v, %v", h, err)
	}
	lead, resign := storetest.NewLead(t, s)
	resign()
	next, _ := storetest.NewLead(t, s)
	if err := s.EndHold(t.Context(), lead, h); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("a replaced leader ended the wait: %v", err)
	}
	if err := s.EndHold(t.Context(), next, h); err != nil {
		t.Error(err)
	}
	if h, err := s.Hold(t.Context()); h != nil || err != nil {
		t.Errorf("it is still there: %v, %v", h, err)
	}
}

func TestAMemberIsMadeOnlyFromAPreparedFile(t *testing.T) {
	old := storetest.Embedded(t)
	populate(t, old)
	file := backup(t, old)
	member := store.Member{Dir: filepath.Join(t.TempDir(), "m"), Name: "a", InitialCluster: "a=http://127.0.0.1:1", PeerURLs: []string{"http://127.0.0.1:1"}, Token: "t"}
	if err := store.RestoreMember(file, member); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "ares restore prepare") {
		t.Errorf("got %v", err)
	}
	var out bytes.Buffer
	if _, err := store.Prepare(t.Context(), filepath.Join(t.TempDir(), "work"), &out, store.Restoration{File: file, Now: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	prepared := filepath.Join(t.TempDir(), "prepared")
	if err := os.WriteFile(prepared, out.Bytes(), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := store.RestoreMember(prepared, member); err != nil {
		t.Error(err)
	}
	// This restored store has been written to, so a backup of it does not count
	// as prepared.
	s, _ := restored(t, store.Restoration{File: file})
	storetest.NewTenant(t, s)
	member.Dir += "2"
	if err := store.RestoreMember(backup(t, s), member); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestABrokenBackupIsNotRestored(t *testing.T) {
	old := storetest.Embedded(t)
	file := backup(t, old)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), filepath.Join(t.TempDir(), "store"), store.Restoration{File: file}); err == nil {
		t.Error("it was restored")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := old.Backup(gone, &bytes.Buffer{}); err == nil {
		t.Error("a backup that was broken off looks whole")
	}
}

// TestRestoreOfAStoreWithUsers restores a backup that includes etcd's users. Their passwords are
// unknown during the restore. The users must not block the restore, and must still exist after it.
func TestRestoreOfAStoreWithUsers(t *testing.T) {
	etcd := storetest.External(t)
	root := etcd.Client(t)
	for _, step := range []func() error{
		func() error { _, err := root.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := root.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := root.AuthEnable(t.Context()); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	old, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints, Username: "root", Password: "secret", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, old)
	job := storetest.NewJob(t, old)
	file := backup(t, old)
	s, _ := restored(t, store.Restoration{File: file}) // the embedded store is opened without a user
	storetest.Get(t, s, job.ID)

	var out bytes.Buffer
	if _, err = store.Prepare(t.Context(), filepath.Join(t.TempDir(), "work"), &out, store.Restoration{File: file, Now: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	prepared := filepath.Join(t.TempDir(), "prepared")
	if err = os.WriteFile(prepared, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	again := storetest.RestoredMember(t, prepared)
	if _, err = store.Open(t.Context(), store.Config{Endpoints: again.Endpoints}); err == nil {
		t.Error("it lets anybody in")
	}
	s, err = store.Open(t.Context(), store.Config{Endpoints: again.Endpoints, Username: "root", Password: "secret", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	storetest.Get(t, s, job.ID)
}
