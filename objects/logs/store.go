package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/whole"
)

const (
	// packSize is about the largest pack. A pack is written before it is full when `gather` has passed.
	packSize = 8 << 20
	// gather is the least time between two rounds of packs. Calls of Put that come meanwhile share a pack.
	gather = time.Second
	// maxWaiting limits the output in memory that waits to be written.
	maxWaiting = 64 << 20
	// keepFree is the free space that logs leave to the store and the audit log.
	keepFree = 256 << 20
)

// Config says where a Store keeps logs, and how many.
type Config struct {
	// Dir is the directory of the logs. All servers of a cluster share it.
	Dir string
	// TenantBytes limits the logs of one tenant. The oldest are deleted. 0 means no limit.
	TenantBytes int64
	// Keep is how long a log is kept after it was stored.
	Keep time.Duration
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Gather is the least time between two rounds of packs. The default is one second.
	Gather time.Duration
}

// Store stores logs. It is safe for concurrent use.
type Store struct {
	cfg    Config
	bucket *blob.Bucket
	flush  func(path string) error         // writes a file to the disk; tests replace it
	free   func(dir string) (int64, error) // free bytes; tests replace it

	mu      sync.Mutex
	queue   []*put
	waiting int64 // bytes of the queue
	busy    bool  // a call writes, or gathers
	full    chan struct{}
	last    time.Time         // when the last round began
	used    map[string]*usage // by tenant
	count   Counts

	indexes indexCache
}

// Counts are what a Store has done since it was opened.
type Counts struct {
	Ranks, Bytes, Packs, Failed, Dropped int64
}

// Entry is a log, or a part of it, and what its key needs.
type Entry struct {
	Tenant string
	Placed time.Time // when the attempt was placed
	Log    *apipb.StoredLog
}

// A put is a call of Put.
type put struct {
	entries []Entry
	size    int64
	done    chan error
	lead    chan struct{} // has a value when this call has to write the queue
}

// Open opens the store, and creates its directory.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Gather = cmp.Or(cfg.Gather, gather)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for logs: %w", err)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("open the directory for logs: %w", err)
	}
	return &Store{cfg: cfg, bucket: bucket, flush: flush, free: freeBytes, full: make(chan struct{}, 1), used: map[string]*usage{}}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Counts returns what the store has done so far.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// The function `flush` writes a file to the disk, and the directories that lead to it.
func flush(path string) error {
	for range 4 { // the file, the hour, the tenant and all logs
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		path = filepath.Dir(path)
	}
	return nil
}

// Put stores logs. It returns when all of them are on the disk. After an error, some of them may be.
//
// One of the calls that come at the same time writes for all of them.
func (s *Store) Put(ctx context.Context, entries []Entry) error {
	p := &put{entries: entries, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	for _, e := range entries {
		p.size += int64(proto.Size(e.Log))
	}
	s.mu.Lock()
	if s.waiting+p.size > maxWaiting && s.waiting > 0 {
		s.mu.Unlock()
		return ares.Errorf(ares.Exhausted, "this server is storing %d MiB of logs already: try again later", s.waiting>>20)
	}
	s.queue, s.waiting = append(s.queue, p), s.waiting+p.size
	leads := !s.busy
	s.busy = true
	if s.waiting >= packSize {
		select {
		case s.full <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	if !leads {
		select {
		case err := <-p.done:
			return err
		case <-p.lead:
		}
	}
	s.lead(ctx)
	return <-p.done
}

// The method `lead` writes the first calls of the queue, and lets the next call lead.
func (s *Store) lead(ctx context.Context) {
	s.gather(ctx)
	s.mu.Lock()
	n, size := 0, int64(0)
	for n < len(s.queue) && (n == 0 || size+s.queue[n].size <= packSize) {
		size += s.queue[n].size
		n++
	}
	round := slices.Clone(s.queue[:n])
	s.queue, s.last = slices.Delete(s.queue, 0, n), s.cfg.Now()
	s.mu.Unlock()
	failed := s.write(context.WithoutCancel(ctx), round) // the other calls go on
	for _, p := range round {
		p.done <- failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting -= size
	if s.busy = len(s.queue) > 0; s.busy {
		s.queue[0].lead <- struct{}{}
	}
}

// The method `gather` waits for other calls.
func (s *Store) gather(ctx context.Context) {
	s.mu.Lock()
	isFull, rest := s.waiting >= packSize, s.cfg.Gather-s.cfg.Now().Sub(s.last)
	s.mu.Unlock()
	if isFull || rest <= 0 {
		return
	}
	timer := time.NewTimer(min(rest, s.cfg.Gather)) // the clock may have been set back
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.full:
	case <-ctx.Done():
	}
}

// The method `write` writes one pack for each tenant and hour.
func (s *Store) write(ctx context.Context, round []*put) error {
	if free, err := s.free(s.cfg.Dir); err == nil && free < keepFree {
		s.failed(1)
		return ares.Errorf(ares.LimitReached, "the disk of the server's objects has only %d MiB left, and logs leave %d MiB to the store: an administrator must free space in %s, "+
			"or lower objects.log_days or objects.tenant_log_mb", free>>20, keepFree>>20, s.cfg.Dir)
	}
	groups := map[string][]Entry{}
	for _, p := range round {
		for _, e := range p.entries {
			dir := dirOf(e.Tenant, hourOf(e.Placed))
			groups[dir] = append(groups[dir], e)
		}
	}
	var errs []error
	for _, entries := range groups { // in any order: the packs do not depend on each other
		errs = append(errs, s.writePack(ctx, entries))
	}
	err := errors.Join(errs...)
	if err != nil {
		s.failed(1)
	}
	return err
}

func (s *Store) failed(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Failed += n
}

// writePack writes logs of one tenant and hour.
func (s *Store) writePack(ctx context.Context, entries []Entry) error {
	name := packName{tenant: entries[0].Tenant, hour: hourOf(entries[0].Placed), min: 1<<63 - 1, uploaded: s.cfg.Now()}
	logs := make([]*apipb.StoredLog, len(entries))
	for i, e := range entries {
		fence := e.Log.GetSeat().GetFence()
		logs[i], name.min, name.max = e.Log, min(name.min, fence), max(name.max, fence)
	}
	pack, hasOutput, err := encodePack(logs)
	if err != nil {
		return err
	}
	if err = s.makeRoom(ctx, name.tenant, int64(len(pack))); err != nil {
		return err
	}
	key := name.key()
	if err = whole.Write(ctx, s.bucket, key, pack); err != nil {
		return s.problem("store logs", err)
	}
	if hasOutput {
		if err = s.flush(filepath.Join(s.cfg.Dir, filepath.FromSlash(key))); err != nil {
			_ = s.bucket.Delete(ctx, key) // the node sends it again
			return s.problem("write logs to the disk", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Ranks, s.count.Bytes, s.count.Packs = s.count.Ranks+int64(len(logs)), s.count.Bytes+int64(len(pack)), s.count.Packs+1
	return nil
}

// The method `problem` turns an error of the bucket into one of Ares.
func (s *Store) problem(doing string, err error) error {
	var known *ares.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return ares.Errorf(ares.LimitReached, "%s: the disk of the server's objects is full: an administrator must free space in %s", doing, s.cfg.Dir)
	}
	return ares.Errorf(ares.Unavailable, "%s in %s: %s", doing, s.cfg.Dir, err)
}
