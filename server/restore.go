package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/lifecycle"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
)

// Restoration is the input of a restore: the backup and the options.
type Restoration struct {
	File     string
	Archives []string      // archive.jsonl files of the servers
	History  string        // URL or file of the history, "" for none
	Bump     int64         // how much revisions are raised; 0 for the default
	Hold     time.Duration // how long nothing is placed; 0 for the longest lost_after
	Force    bool          // replace an existing store
	AsCopy   bool          // make a second store with an identity of its own
}

// Restored is the result of a restore.
type Restored struct {
	store.Restored

	HoldSeconds float64 `json:"hold_seconds"`
	Unread      int     `json:"unread_archive_lines"`
	// Kept is the new path of the store that was replaced, or "" if no store existed.
	Kept string `json:"replaced_store,omitempty"`
}

// Member is one member of an external etcd.
type Member = store.Member

// Restore creates the embedded store of a data directory from a backup. With Force, an existing store is renamed and not deleted. No server
// may be running on the data directory.
func Restore(ctx context.Context, dataDir string, r Restoration) (Restored, error) {
	dir := storeDir(dataDir)
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return Restored{}, fmt.Errorf("make the data directory: %w", err)
	}
	if file := filepath.Join(dataDir, HistoryFile); r.History == "" {
		if _, err := os.Stat(file); err == nil {
			r.History = file
		}
	}
	unlock, there, err := lockStore(dir)
	if err != nil {
		return Restored{}, err
	}
	defer unlock()
	if there && !r.Force {
		return Restored{}, ares.Errorf(ares.Conflict, "%s already contains a store: move that store to another directory, or use --force to rename that store and continue", dataDir)
	}
	work, err := os.MkdirTemp(dataDir, "store.restoring-")
	if err != nil {
		return Restored{}, fmt.Errorf("create a temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // after a success the directory was renamed, so nothing is left here
	done, err := r.run(ctx, func(s store.Restoration) (store.Restored, error) { return store.Restore(ctx, work, s) })
	if err != nil {
		return done, err
	}
	mark, _ := readMark(dataDir) // a mark that cannot be read is replaced below
	if err = mark.checkRestored(&done.Restored); err != nil {
		return done, err
	}
	if there {
		done.Kept = dir + ".replaced-" + time.Now().UTC().Format("20060102T150405.000")
		if err = os.Rename(dir, done.Kept); err != nil {
			return done, fmt.Errorf("move the old store aside: %w", err)
		}
	}
	if err = os.Rename(work, dir); err != nil {
		return done, fmt.Errorf("move the restored store into the data directory: %w", err)
	}
	if err = mark.restored(&done.Restored); err != nil {
		return done, fmt.Errorf("write the revision mark: %w", err)
	}
	return done, syncDir(dataDir)
}

// PrepareRestore creates the file from which every member of an external etcd is restored.
func PrepareRestore(ctx context.Context, out string, r Restoration) (done Restored, err error) {
	work, err := os.MkdirTemp(filepath.Dir(out), ".ares-restore-")
	if err != nil {
		return done, fmt.Errorf("create a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	err = WriteWhole(out, r.Force, func(w io.Writer) (err error) {
		done, err = r.run(ctx, func(s store.Restoration) (store.Restored, error) { return store.Prepare(ctx, work, w, s) })
		return err
	})
	return done, err
}

// RestoreMember creates the data directory of one member of an external etcd from a prepared file.
func RestoreMember(file string, m Member) error { return store.RestoreMember(file, m) }

func (r *Restoration) run(ctx context.Context, do func(store.Restoration) (store.Restored, error)) (done Restored, err error) {
	s := store.Restoration{File: r.File, Bump: r.Bump, Hold: r.Hold, AsCopy: r.AsCopy, Now: time.Now()}
	for _, path := range r.Archives {
		unread, bad := lifecycle.ReadArchive(path, func(e store.Ended) { s.Ended = append(s.Ended, e) })
		if bad != nil {
			return done, bad
		}
		done.Unread += unread
	}
	if err = r.readHistory(ctx, &s); err != nil {
		return done, err
	}
	done.Restored, err = do(s)
	done.HoldSeconds = done.Hold.Seconds()
	return done, err
}

// readHistory reads from the history database which jobs have ended, and of a hub which clusters have joined. The restore then
// does not run these jobs again, and the hub asks these clusters.
func (r *Restoration) readHistory(ctx context.Context, s *store.Restoration) (err error) {
	if r.History == "" {
		return nil
	}
	cfg := history.Config{File: r.History}
	if strings.Contains(r.History, "://") {
		cfg = history.Config{URL: r.History}
	} else if _, err = os.Stat(r.History); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	h, err := history.Open(cfg)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	err = h.EachEnded(ctx, func(e history.Ended) {
		s.Ended = append(s.Ended, store.Ended{Job: e.Job, Accepted: e.Accepted, Digest: e.Digest, Phase: e.Phase, At: e.At})
	})
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	kept, err := h.Roster(ctx)
	if err != nil || kept == nil {
		return err
	}
	s.Roster = &store.Roster{Hub: kept.Hub, Version: kept.Version}
	if err = json.Unmarshal(kept.Clusters, &s.Roster.Clusters); err != nil {
		return fmt.Errorf("read the roster in history: %w", err)
	}
	return nil
}

func storeDir(dataDir string) string { return filepath.Join(dataDir, "store") }

// HasEmbeddedStore reports whether a server has used an embedded store in this data directory.
func HasEmbeddedStore(dataDir string) bool {
	_, err := os.Stat(storeDir(dataDir))
	return err == nil
}

// lockStore prevents a server from starting on an existing store. It fails if a server is already running on this
// store.
func lockStore(dir string) (unlock func(), there bool, err error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		entries, bad := os.ReadDir(dir)
		if errors.Is(bad, fs.ErrNotExist) {
			bad = nil
		}
		return func() {}, len(entries) > 0, bad
	}
	if err != nil {
		return nil, false, fmt.Errorf("open the lock file of the store: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, false, ares.Errorf(ares.Conflict, "a server is using %s: stop that server first", dir)
	}
	return func() { _ = lock.Close() }, true, nil
}
