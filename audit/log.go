package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Actions of the log itself. Those of calls come from the doors.
const (
	ActionOpen    = "AUDIT_OPENED"    // a server began to write
	ActionRecover = "AUDIT_RECOVERED" // a torn end was cut off after a crash
	ActionExpire  = "AUDIT_EXPIRED"   // a segment was removed by age
	ActionGap     = "AUDIT_GAP"       // entries were lost while the disk took nothing
)

// Config says where a log is and how it is kept.
type Config struct {
	Dir string
	// Server whose log it is, and its cluster; they are in every entry.
	Server, Cluster string
	// MaxSegment is how large a file may become. Default 64 MiB.
	MaxSegment int64
	// Keep is how long entries are kept at least. Default 0: for ever.
	Keep time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Observe hears of each fsync: how many entries it was for, how long it took
	// and whether it worked. May be nil.
	Observe func(entries int, took time.Duration, err error)
	// Aggregated hears of each refusal that was only counted. May be nil.
	Aggregated func()
	// Shipped says up to which entry the log is kept elsewhere; segments behind it
	// are not removed. Nil when nobody else keeps it.
	Shipped func() uint64

	open opener // of segments; tests have their own
}

// How the log is written.
const (
	defaultSegment = 64 << 20
	maxPending     = 16_384  // entries on their way to the disk; more are refused
	maxOwed        = 16_384  // entries that the disk did not take and that are kept
	maxKept        = 1 << 20 // bytes of the buffer for lines; a larger one is let go when the next write begins
	headEvery      = 1024    // entries
	headAfter      = time.Minute
	tickEvery      = time.Second
)

// Log is the audit log of one server. It is safe for concurrent use. Run writes
// it: nothing is recorded before Run is called and after it has returned.
type Log struct {
	cfg Config

	mu       sync.Mutex
	pending  []*group
	waiting  int // entries in pending and those being written
	owed     []Entry
	lost     int       // entries beyond what may be owed
	lostFrom time.Time // the first of them
	failed   error     // why nothing can be written, nil when it can
	closed   bool
	refusals *refusals
	wake     chan struct{}

	// The rest is Run's own, but for what is read under mu.
	signer  *signer
	lock    *os.File
	out     file         // the last segment, nil when it must be opened
	path    string       // of the last segment; under mu
	first   uint64       // of the last segment
	day     string       // when the last segment was begun
	size    int64        // of the last segment, up to what is safe; under mu
	seq     uint64       // of the last entry that is safe; under mu
	hash    string       // of it; under mu
	dirty   bool         // there may be more in the file than is safe
	lines   bytes.Buffer // of one write
	pruned  time.Time
	unasked uint64 // entries since the last head

	unsigned bool // the last head could not be written
}

// group is what one caller records together.
type group struct {
	entries []Entry
	done    chan error // nil when nobody waits
}

// Open opens a log, or begins one. What a crash has torn is cut off, which is
// itself recorded once Run is called. A log that is damaged otherwise is not
// opened.
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

// Key is the public part of the key that signs heads, base64.
func (l *Log) Key() string { return l.signer.public() }

// Dir is where the log is.
func (l *Log) Dir() string { return l.cfg.Dir }

// Ready says whether an entry could be written now. While it could not, nobody
// should do what must be recorded.
func (l *Log) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return unavailable("the server is stopping")
	case l.failed != nil:
		return unavailable(l.failed.Error())
	case l.waiting >= maxPending:
		return ares.Errorf(ares.Exhausted, "%d entries wait to be written to the audit log: try again in a moment", l.waiting)
	}
	return nil
}

func unavailable(why string) error {
	return ares.Errorf(ares.Unavailable, "the audit log cannot be written (%s), and nothing is done that it does not show: free space or mend the disk of the server's audit directory, then try again", why)
}

// Record writes entries and returns when they are safe. When it fails, they are
// kept and written first once that is possible.
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

// Note hands entries over without waiting: for what must not depend on the log.
func (l *Log) Note(entries ...Entry) { _ = l.add(&group{entries: entries}) } // what failed is owed

// Refuse records refusals. The first ones of a kind are written, and it returns
// when they are safe; more of them are counted, and one entry tells how many.
func (l *Log) Refuse(ctx context.Context, entries ...Entry) {
	var alone []Entry
	l.mu.Lock()
	for i := range entries {
		e := &entries[i]
		e.Time, e.Status = l.cfg.Now(), Refused
		if l.failed == nil && l.waiting < maxPending && l.refusals.alone(e) {
			alone = append(alone, *e)
		} else {
			l.refusals.count(e)
		}
	}
	l.mu.Unlock()
	if len(alone) > 0 {
		_ = l.Record(ctx, alone...) // a refusal stays one; what failed is owed
	}
}

// add puts a group in the line, or among what is owed while nothing is written.
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
		l.owe(g.entries)
		return unavailable(l.failed.Error())
	}
	l.pending = append(l.pending, g)
	l.waiting += len(g.entries)
	l.stir()
	return nil
}

// owe keeps entries that could not be written. The caller holds l.mu.
func (l *Log) owe(entries []Entry) {
	room := min(max(maxOwed-len(l.owed), 0), len(entries))
	l.owed = append(l.owed, entries[:room]...)
	if beyond := len(entries) - room; beyond > 0 {
		if l.lost == 0 {
			l.lostFrom = l.cfg.Now()
		}
		l.lost += beyond
	}
}

// stir wakes Run.
func (l *Log) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Head is the last entry that is safe, signed.
func (l *Log) Head(ctx context.Context) (Head, error) {
	// Only Run signs. It is asked by an entry's absence: an empty group.
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

// Position is the last entry that is safe.
func (l *Log) Position() (seq uint64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.hash
}

// Run writes what is recorded until ctx ends; then what is left, and a head.
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
		case <-tick.C:
			l.tick()
		}
	}
}

// tick does what is due by time.
func (l *Log) tick() {
	now := l.cfg.Now()
	l.mu.Lock()
	due := l.refusals.due(now)
	l.mu.Unlock()
	if len(due) > 0 {
		l.Note(due...)
	}
	if l.unasked > 0 && now.Sub(l.signer.last.Time) >= headAfter {
		_ = l.sign() // it was told
	}
	l.prune(now)
}

// end writes what is left and a last head.
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
		g.tell(unavailable("the server is stopping"))
	}
	var err error
	if owed > 0 {
		l.cfg.Log.Error("entries of the audit log are lost: the disk did not take them", "entries", owed)
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

func (g *group) tell(err error) {
	if g.done != nil {
		g.done <- err
	}
}

// sign signs the last entry, and tells once when that does not work: entries are
// good without it.
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
