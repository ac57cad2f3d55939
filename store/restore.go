package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
)

// DefaultBump is by how much a restore raises the revision: by more than any
// store writes between two backups, so that no fence is ever given out again.
const DefaultBump = 1_000_000_000

// Restoration says what is restored.
type Restoration struct {
	File string // a snapshot, as Backup wrote it
	// Bump raises the store's revision. Default DefaultBump.
	Bump int64
	// Hold is how long the first leader places nothing. Default: the longest
	// lost_after that the snapshot knows of.
	Hold time.Duration
	// Ended are jobs that history shows as ended.
	Ended []Ended
	Now   time.Time
}

// Ended is a job whose end was archived.
type Ended struct {
	Job      ares.JobID
	Accepted int64 // revision at which it was accepted
	Digest   ares.Digest
	Phase    ares.Phase
	At       time.Time
}

// Restored tells what a restore did.
type Restored struct {
	Snapshot int64         `json:"snapshot_revision"`
	Revision int64         `json:"revision"`
	Jobs     int           `json:"jobs"`       // that have not ended
	Lost     int           `json:"ended"`      // attempts and jobs that were ended by the restore
	Final    int           `json:"kept_final"` // jobs that only history shows as ended
	Hold     time.Duration `json:"-"`
}

// Restore makes the directory of an embedded store from a backup. The
// directory must be empty or absent.
func Restore(ctx context.Context, dir string, r Restoration) (Restored, error) {
	// An embedded etcd has no users: nobody but its own process reaches it.
	return restore(ctx, dir, &r, func(*Store, func() error) error { return nil })
}

// Prepare makes another snapshot from a backup: restored, and ready to be
// given to every member of an external etcd. They must all begin with the very
// same one. It uses dir, which must be empty or absent, for its work.
func Prepare(ctx context.Context, dir string, out io.Writer, r Restoration) (Restored, error) {
	return restore(ctx, dir, &r, func(s *Store, resumeAuth func() error) error {
		if err := resumeAuth(); err != nil {
			return fmt.Errorf("turn etcd's authentication on again: %w", err)
		}
		return s.Backup(ctx, out)
	})
}

func restore(ctx context.Context, dir string, r *Restoration, then func(s *Store, resumeAuth func() error) error) (done Restored, err error) {
	if r.Bump == 0 {
		r.Bump = DefaultBump
	}
	if r.Bump < 0 || r.Hold < 0 {
		return done, ares.Errorf(ares.Invalid, "neither the revision bump nor the hold may be negative")
	}
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: r.File, Name: embeddedName, OutputDataDir: dir, PeerURLs: []string{embeddedURL},
		InitialCluster: embeddedName + "=" + embeddedURL, InitialClusterToken: "etcd-cluster",
		RevisionBump: uint64(r.Bump), MarkCompacted: true,
	})
	if err != nil {
		return done, fmt.Errorf("restore %s: %w", r.File, err)
	}
	inside, client, err := startEmbedded(ctx, dir)
	if err != nil {
		return done, err
	}
	s := newStore(Config{Dir: dir, Timeout: time.Minute})
	s.inside, s.client, s.renewals = inside, client, client
	defer func() { err = errors.Join(err, s.Close()) }()
	resumeAuth := s.suspendAuth()
	if done, err = s.cutOff(ctx, r); err != nil {
		return done, fmt.Errorf("restore %s: %w", r.File, err)
	}
	return done, then(s, resumeAuth)
}

// Member is one member of an external etcd that is to be made.
type Member struct {
	Dir            string
	Name           string
	InitialCluster string // name=peer-url for each member
	PeerURLs       []string
	Token          string // of the cluster
}

// RestoreMember makes the data directory of one member of an external etcd from
// a snapshot that Prepare wrote.
func RestoreMember(file string, m Member) error {
	ok, err := prepared(file)
	if err != nil {
		return err
	}
	if !ok {
		return ares.Errorf(ares.Invalid, "%s is not prepared: make a file from it with `ares restore prepare`, once, and give every member that one", file)
	}
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: m.Name, OutputDataDir: m.Dir, PeerURLs: m.PeerURLs,
		InitialCluster: m.InitialCluster, InitialClusterToken: m.Token,
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", file, err)
	}
	return nil
}

// prepared says whether the note to the first leader is the last thing that
// was written to a snapshot. In a store that has been used since, it is not.
func prepared(file string) (yes bool, err error) {
	if _, err = os.Stat(file); err != nil {
		return false, err
	}
	db, err := bolt.Open(file, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, fmt.Errorf("%s is not a snapshot of a store: %w", file, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return yes, db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		if bucket == nil {
			return fmt.Errorf("%s is not a snapshot of a store", file)
		}
		_, value := bucket.Cursor().Last()
		var kv mvccpb.KeyValue
		yes = proto.Unmarshal(value, &kv) == nil && string(kv.Key) == restoredKey && len(kv.Value) > 0
		return nil
	})
}

// cutOff makes a restored store safe to use: nothing of the time before has a
// right to act any more.
func (s *Store) cutOff(ctx context.Context, r *Restoration) (done Restored, err error) {
	rev, err := s.Revision(ctx)
	if err != nil {
		return done, err
	}
	done.Snapshot, done.Hold = rev-r.Bump, r.Hold
	for _, step := range []func() error{
		func() error { return s.disarm(ctx) },
		func() error { return s.dropRights(ctx) },
		func() error { return s.endRuns(ctx, r, &done) },
		func() error { return s.rememberEnded(ctx, r, &done) },
		func() error { return s.noteRestore(ctx, r, &done) },
	} {
		if err = step(); err != nil {
			return done, err
		}
	}
	done.Revision, err = s.Revision(ctx)
	return done, err
}

// noteRestore gives the store another identity and leaves the first leader a
// note, as the very last thing.
func (s *Store) noteRestore(ctx context.Context, r *Restoration, done *Restored) error {
	id, _, err := s.Identity(ctx)
	if err != nil {
		return err
	}
	id.Restore = rand.Text()
	w := s.write()
	w.put(identityKey, identityRecord(id))
	if err = w.flush(ctx); err != nil {
		return err
	}
	w.put(restoredKey, holdRecord(&Hold{Restore: id.Restore, RestoredAt: r.Now, For: done.Hold, Snapshot: done.Snapshot}))
	return w.flush(ctx)
}

// byAcceptance finds what history says of each job, oldest first.
func byAcceptance(ended []Ended) map[ares.JobID][]Ended {
	out := make(map[ares.JobID][]Ended, len(ended))
	for _, e := range ended {
		out[e.Job] = append(out[e.Job], e)
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b Ended) int { return cmp.Compare(a.Accepted, b.Accepted) })
	}
	return out
}
