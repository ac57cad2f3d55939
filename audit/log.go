package audit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// These are the actions that the log itself records. The actions of calls come from package api.
const (
	ActionOpen    = "AUDIT_OPENED"    // a server began to write
	ActionRecover = "AUDIT_RECOVERED" // an incomplete end was cut off after a crash
	ActionExpire  = "AUDIT_EXPIRED"   // a segment was removed because of its age
	ActionGap     = "AUDIT_GAP"       // entries were lost while the disk failed
	ActionBehind  = "AUDIT_BEHIND"    // the log is not the one that the mark in the store was written for
	ActionMarked  = "AUDIT_MARKED"    // from here on, a mark in the store follows the log
	ActionClock   = "AUDIT_CLOCK_SET" // the server's clock was set back
)

// Config is the location and the settings of a log.
type Config struct {
	Dir string
	// Server and Cluster are written into every entry.
	Server, Cluster string
	// MaxSegment is the size at which the log begins a new file. The default is 64 MiB.
	MaxSegment int64
	// Keep is the minimum time for which entries are stored. The default 0 means that entries are stored forever.
	Keep time.Duration
	// Now returns the current time. The default is time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Observe is called after each fsync with the number of entries, the duration and the error. Observe may be nil.
	Observe func(entries int, took time.Duration, err error)
	// The function Aggregated is called for each rejection that is only counted and gets no entry of its own. This function may be
	// nil.
	Aggregated func()
	// The function Shipped returns the sequence number of the last entry that is also stored in a sink. Segments after that entry
	// are not removed. This function is nil if the log is not copied.
	Shipped func() uint64

	open opener // of segments; tests have their own
}

// These are the limits for writing the log.
const (
	defaultSegment = 64 << 20
	maxPending     = 16_384  // entries that wait to be written; more are rejected
	maxOwed        = 16_384  // unwritten entries that are kept while the disk fails
	maxKept        = 1 << 20 // bytes of the buffer for lines; a larger one is freed when the next write begins
	headEvery      = 1024    // entries
	headAfter      = time.Minute
	tickEvery      = time.Second
)

// Log is the audit log of one server. A Log is safe for concurrent use. Run writes the entries, so nothing is recorded before Run is called
// or after Run has returned.
type Log struct {
	cfg Config

	mu       sync.Mutex
	pending  []*group
	waiting  int // entries in pending and those being written
	owed     []Entry
	lost     int       // entries lost beyond maxOwed
	lostFrom time.Time // the first of them
	failed   error     // why nothing can be written, nil if writing works
	closed   bool
	refusals *refusals
	wake     chan struct{}

	// After Open, only Run writes the following fields. Other methods may read the fields that are marked "under mu",
	// but only while they hold mu.
	signer  *signer
	lock    *os.File
	out     file   // the last segment, nil when it must be opened
	path    string // of the last segment; under mu
	first   uint64 // of the last segment
	day     string // day on which the last segment was begun
	size    int64  // size of the last segment that is on disk; under mu
	seq     uint64 // of the last entry on disk; under mu
	hash    string // hash of that entry; under mu
	dirty   bool   // the file may hold more than the part known to be on disk
	lines   []byte // of one write
	pruned  time.Time
	unasked uint64 // entries since the last head

	unsigned bool // the last head could not be written

	owner   string    // server of the last entry, when the log was opened
	stepped time.Time // the latest time from which the clock was set back; under mu
	clock   time.Time // the latest time that an entry was written, to notice that the clock was set back

	// These are the steps of the clock in segments before the last one; see earlierSteps.
	steps struct {
		mu     sync.Mutex
		latest time.Time
		before uint64 // segments that begin before this entry were read
	}
}

// The type `group` holds the entries that one caller records with one call.
type group struct {
	entries []Entry
	done    chan error // nil when nobody waits
}

// Open opens an existing log or creates a new one. If a crash left an incomplete entry at the end, Open cuts it off. When Run
// starts, it adds an entry about this to the log. Open returns an error if the log is damaged in any other way.
func Open(cfg Config) (*Log, error) {
	if cfg.MaxSegment <= 0 {
		cfg.MaxSegment = defaultSegment
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.open == nil {
		cfg.open = openFile
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the audit log: %w", err)
	}
	l := &Log{cfg: cfg, hash: genesis, wake: make(chan struct{}, 1), refusals: newRefusals(cfg.Aggregated)}
	var err error
	if l.lock, err = lock(cfg.Dir); err != nil {
		return nil, err
	}
	all, err := segments(cfg.Dir)
	if err == nil {
		l.signer, err = openSigner(cfg.Dir, cfg.Server, all)
	}
	if err == nil {
		err = l.resume(all)
	}
	if err != nil {
		_ = l.lock.Close() // nothing was written
		return nil, err
	}
	return l, nil
}

// Key returns the public key that verifies heads, in base64.
func (l *Log) Key() string { return l.signer.public() }

// Dir returns the directory of the log.
func (l *Log) Dir() string { return l.cfg.Dir }

// Ready returns an error if no entry can be written now. While Ready returns an error, no operation that must be recorded may
// start.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return unavailable("the server is stopping")
	case l.failed != nil:
		return unavailable(l.failed.Error())
	case l.waiting >= maxPending:
		return ares.Errorf(ares.Exhausted, "too many entries (%d) are waiting to be written to the audit log: try again in a moment", l.waiting)
	}
	return nil
}

func unavailable(why string) error {
	return ares.Errorf(ares.Unavailable, "the server rejects this operation, because it cannot write its audit log (%s): check the disk of the server's audit directory, then try again", why)
}

// Record writes entries and returns when they are on disk. If writing fails, the entries stay in memory and are written first once
// the disk works again.
func (l *Log) Record(ctx context.Context, entries ...Entry) error {
	g := &group{entries: entries, done: make(chan error, 1)}
	if err := l.add(g); err != nil {
		return err
	}
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		return unavailable("it does not answer in time")
	}
}

// Note records entries without waiting for the disk. Use Note for operations that must not depend on the log.
func (l *Log) Note(entries ...Entry) { _ = l.add(&group{entries: entries}) } // unwritten entries are kept

// Refuse records rejections. The first rejections of a kind are written as separate entries, and Refuse returns when
// these are on disk. Further rejections of the same kind are only counted, and one entry states their number.
func (l *Log) Refuse(ctx context.Context, entries ...Entry) {
	var alone []Entry
	l.mu.Lock()
	for i := range entries {
		e := &entries[i]
		e.Time, e.Status = l.cfg.Now(), Refused
		if l.failed == nil && l.waiting < maxPending && l.refusals.isWrittenAlone(e) {
			alone = append(alone, *e)
		} else {
			l.refusals.count(e)
		}
	}
	l.mu.Unlock()
	if len(alone) > 0 {
		_ = l.Record(ctx, alone...) // the call was rejected in any case; unwritten entries are kept
	}
}

// The method `add` adds the entries of a group to the entries that wait for writing. While the disk fails, the method
// stores the entries in memory instead.
func (l *Log) add(g *group) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range g.entries {
		e := &g.entries[i]
		e.Server, e.Cluster = l.cfg.Server, l.cfg.Cluster
		if e.Time.IsZero() {
			e.Time = l.cfg.Now()
		}
	}
	switch {
	case l.closed:
		return unavailable("the server is stopping")
	case l.failed != nil:
		l.keepUnwritten(g.entries)
		return unavailable(l.failed.Error())
	}
	l.pending = append(l.pending, g)
	l.waiting += len(g.entries)
	l.wakeUp()
	return nil
}

// keepUnwritten stores entries that could not be written, until the disk works again. The caller holds l.mu.
func (l *Log) keepUnwritten(entries []Entry) {
	room := min(max(maxOwed-len(l.owed), 0), len(entries))
	l.owed = append(l.owed, entries[:room]...)
	if beyond := len(entries) - room; beyond > 0 {
		if l.lost == 0 {
			l.lostFrom = l.cfg.Now()
		}
		l.lost += beyond
	}
}

// wakeUp wakes Run.
func (l *Log) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Head returns a signed head for the last entry on disk.
func (l *Log) Head(ctx context.Context) (Head, error) {
	// Only Run signs. A group without entries asks Run to sign a head.
	g := &group{done: make(chan error, 1)}
	if err := l.add(g); err != nil {
		return Head{}, err
	}
	select {
	case err := <-g.done:
		if err != nil {
			return Head{}, err
		}
	case <-ctx.Done():
		return Head{}, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signer.last, nil
}

// Position returns the sequence number and the hash of the last entry on disk.
func (l *Log) Position() (seq uint64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.hash
}

// Run writes entries until ctx ends. When ctx ends, Run writes the remaining entries and a head.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	defer l.lock.Close()
	for {
		l.flush()
		select {
		case <-ctx.Done():
			return l.end()
		case <-l.wake:
			l.gather()
		case <-tick.C:
			l.runDue()
		}
	}
}

// gather lets the calls that are about to record an entry do so before the next write, so that they share its fsync. The calls of one
// transaction of the store continue at the same moment, and without a pause the first of them would be written alone. The method waits for
// no call that is not ready to run, and not longer than for a few turns of the Go scheduler.
func (l *Log) gather() {
	const turns = 8
	for turn, waiting, before := 0, l.waitingEntries(), -1; waiting > before && turn < turns; turn++ {
		runtime.Gosched()
		before, waiting = waiting, l.waitingEntries()
	}
}

func (l *Log) waitingEntries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// runDue writes the counts of rejections whose time window is over, signs a head if one is due, and removes old
// segments.
func (l *Log) runDue() {
	now := l.cfg.Now()
	l.mu.Lock()
	due := l.refusals.expired(now)
	l.mu.Unlock()
	if len(due) > 0 {
		l.Note(due...)
	}
	if l.unasked > 0 && now.Sub(l.signer.last.Time) >= headAfter {
		_ = l.sign() // the failure was logged
	}
	l.prune(now)
}

// The method `end` writes the remaining entries and signs a last head.
func (l *Log) end() error {
	l.mu.Lock()
	due := l.refusals.all(l.cfg.Now())
	l.mu.Unlock()
	if len(due) > 0 {
		l.Note(due...)
	}
	l.flush()
	l.mu.Lock()
	l.closed = true
	late := l.pending
	l.pending, l.waiting = nil, 0
	owed := len(l.owed) + l.lost
	l.mu.Unlock()
	for _, g := range late {
		g.finish(unavailable("the server is stopping"))
	}
	var err error
	if owed > 0 {
		l.cfg.Log.Error("entries of the audit log are lost: the disk failed", "entries", owed)
	}
	if l.unasked > 0 {
		err = l.signTop()
	}
	if l.out != nil {
		if closing := l.out.Close(); err == nil {
			err = closing
		}
	}
	return err
}

func (g *group) finish(err error) {
	if g.done != nil {
		g.done <- err
	}
}

// The method `sign` signs the last entry and logs a failure. It logs a repeated failure only once, because entries are
// valid without a signature.
func (l *Log) sign() error {
	err := l.signTop()
	if err != nil && !l.unsigned {
		l.cfg.Log.Error("sign the audit log", "error", err)
	}
	l.unsigned = err != nil
	return err
}

// signTop signs the last entry.
func (l *Log) signTop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == 0 || l.signer.last.Sequence == l.seq {
		return nil
	}
	err := l.signer.sign(l.first, l.seq, l.hash, l.cfg.Now())
	if err == nil {
		l.unasked = 0
	}
	return err
}
