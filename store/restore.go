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

// DefaultBump is the default amount by which a restore raises the store's revision. The amount is larger than the
// number of revisions that a store writes between two backups. Therefore no fence is ever issued twice.
const DefaultBump = 1_000_000_000

// Restoration is the input of a restore.
type Restoration struct {
	File string // a snapshot, as Backup wrote it
	// Bump is the amount by which the store's revision is raised. The default
	// is DefaultBump.
	Bump int64
	// Hold is how long the first leader must not place any job. The default is the longest lost_after in the snapshot.
	Hold time.Duration
	// Ended lists the jobs that have ended according to the history database.
	Ended []Ended
	// AsCopy makes a second store from the backup, beside the first. It gets an identity of its own, leaves its federation,
	// and drops the jobs that a hub has granted to the first store: only one store may speak for a cluster (F13).
	AsCopy bool
	// Roster is the roster of the hub according to the history database, or nil.
	Roster *Roster
	Now    time.Time
}

// Ended is a job that has ended according to the history database.
type Ended struct {
	Job      ares.JobID
	Accepted int64 // revision at which it was accepted
	Digest   ares.Digest
	Phase    ares.Phase
	At       time.Time
}

// Restored is the result of a restore.
type Restored struct {
	Snapshot int64         `json:"snapshot_revision"`
	Revision int64         `json:"revision"`
	Jobs     int           `json:"jobs"`       // jobs that have not ended
	Lost     int           `json:"ended"`      // attempts and jobs that the restore ended
	Final    int           `json:"kept_final"` // jobs whose end only history knows
	Hold     time.Duration `json:"-"`
	Store    string        `json:"-"` // the identity of the store
	// Asks is true if the store is a hub. It then grants nothing until all its clusters have said which jobs they hold.
	Asks bool `json:"asks_clusters,omitempty"`
	// Granted is the number of jobs of a hub: in a copy they are dropped, and otherwise they wait until the hub has
	// confirmed them.
	Granted int `json:"granted_jobs,omitempty"`
}

// Restore creates the directory of an embedded store from a backup. The
// directory must be empty or absent.
func Restore(ctx context.Context, dir string, r Restoration) (Restored, error) {
	// The embedded etcd has no user accounts, because only its own process can connect to it.
	return restore(ctx, dir, &r, func(*Store, func() error) error { return nil })
}

// Prepare restores a backup and writes a second snapshot of the result. Every member of an external etcd can start
// from that second snapshot. All members must start from the same snapshot. Prepare works in the directory `dir`,
// which must be empty or absent.
func Prepare(ctx context.Context, dir string, out io.Writer, r Restoration) (Restored, error) {
	return restore(ctx, dir, &r, func(s *Store, resumeAuth func() error) error {
		if err := resumeAuth(); err != nil {
			return fmt.Errorf("enable etcd's authentication again: %w", err)
		}
		return s.Backup(ctx, out)
	})
}

func restore(ctx context.Context, dir string, r *Restoration, then func(s *Store, resumeAuth func() error) error) (done Restored, err error) {
	if r.Bump == 0 {
		r.Bump = DefaultBump
	}
	if r.Bump < 0 || r.Hold < 0 {
		return done, ares.Errorf(ares.Invalid, "neither the revision bump nor the waiting time after the restore may be negative")
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

// Member describes one member of an external etcd that is to be created.
type Member struct {
	Dir            string
	Name           string
	InitialCluster string // name=peer-url for each member
	PeerURLs       []string
	Token          string // the cluster's token
}

// RestoreMember creates the data directory of one member of an external etcd from a snapshot that Prepare wrote.
func RestoreMember(file string, m Member) error {
	ok, err := prepared(file)
	if err != nil {
		return err
	}
	if !ok {
		return ares.Errorf(ares.Invalid, "%s is not a prepared backup: run `ares restore prepare` once, and use the prepared file for every etcd member", file)
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

// This function reports whether the last write in a snapshot is the hold record for the first
// leader. If another write follows the hold record, the store was used after the restore.
func prepared(file string) (yes bool, err error) {
	if _, err = os.Stat(file); err != nil {
		return false, err
	}
	db, err := bolt.Open(file, 0o400, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return false, fmt.Errorf("%s is not an etcd snapshot: %w", file, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return yes, db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		if bucket == nil {
			return fmt.Errorf("%s is not an etcd snapshot", file)
		}
		_, value := bucket.Cursor().Last()
		var kv mvccpb.KeyValue
		yes = proto.Unmarshal(value, &kv) == nil && string(kv.Key) == restoredKey && len(kv.Value) > 0
		return nil
	})
}

// cutOff makes a restored store safe to use. The method ends every session, lease and claim from
// before the restore.
func (s *Store) cutOff(ctx context.Context, r *Restoration) (done Restored, err error) {
	rev, err := s.Revision(ctx)
	if err != nil {
		return done, err
	}
	done.Snapshot, done.Hold = rev-r.Bump, r.Hold
	for _, step := range []func() error{
		func() error { return s.disarm(ctx) },
		func() error { return s.dropRights(ctx) },
		func() error { return s.restoreFederation(ctx, r, &done) },
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

// noteRestore gives the store a new identity and writes the hold record for the first leader.
// The hold record must be the store's last write.
func (s *Store) noteRestore(ctx context.Context, r *Restoration, done *Restored) error {
	id, _, err := s.Identity(ctx)
	if err != nil {
		return err
	}
	if r.AsCopy {
		id.Store = rand.Text()
	}
	id.Restore, done.Store = rand.Text(), id.Store
	w := s.write()
	w.put(identityKey, identityRecord(id))
	if done.Asks {
		w.put(askingKey, askingRecord(id.Restore, micros(r.Now)))
	}
	if err = w.flush(ctx); err != nil {
		return err
	}
	w.put(restoredKey, holdRecord(&Hold{Restore: id.Restore, RestoredAt: r.Now, For: done.Hold, Snapshot: done.Snapshot}))
	return w.flush(ctx)
}

// byAcceptance groups the ended jobs from history by job ID. In each group, the job that was accepted first comes
// first.
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
