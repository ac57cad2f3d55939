package logs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/bucket"
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
	// Place is the directory or the bucket of the logs. All servers of a cluster share it.
	Place bucket.Place
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
	bucket *bucket.Bucket
	flush  func(key string) error             // writes a pack to the disk; tests replace it
	free   func() (bytes int64, isKnown bool) // tests replace it

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

// Open opens the store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Gather = cmp.Or(cfg.Gather, gather)
	b, err := bucket.Open(ctx, cfg.Place)
	if err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, bucket: b, flush: b.FlushObject, free: b.Free, full: make(chan struct{}, 1), used: map[string]*usage{}}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Counts returns what the store has done so far.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
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
	if free, isKnown := s.free(); isKnown && free < keepFree {
		s.failed(1)
		return ares.Errorf(ares.LimitReached, "the disk of the server's objects has only %d MiB left, and logs leave %d MiB to the store: an administrator must free space in %s, "+
			"or lower objects.log_days or objects.tenant_log_mb", free>>20, keepFree>>20, s.bucket.Place())
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
	if err = s.bucket.Write(ctx, key, pack); err != nil {
		return s.bucket.Problem("store logs", err)
	}
	if hasOutput {
		if err = s.flush(key); err != nil {
			_ = s.bucket.Delete(ctx, key) // the node sends it again
			return s.bucket.Problem("write logs to the disk", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Ranks, s.count.Bytes, s.count.Packs = s.count.Ranks+int64(len(logs)), s.count.Bytes+int64(len(pack)), s.count.Packs+1
	return nil
}
