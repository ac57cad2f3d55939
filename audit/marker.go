package audit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
)

// MarkStore keeps one mark for each server, in a place that is not the log's directory.
type MarkStore interface {
	// AuditMark returns the mark of a server. Without one, its sequence number is 0.
	AuditMark(ctx context.Context, server string) (Mark, error)
	// MoveAuditMark replaces the mark `from` by the mark `to`. MoveAuditMark fails with the code Conflict if the stored mark is not `from`.
	MoveAuditMark(ctx context.Context, from, to Mark) error
}

// These constants limit how often a mark is written. A server that records nothing writes no marks.
const (
	markTick    = time.Second
	markAfter   = 10 * time.Second // at most this long after an entry
	markEntries = 1024             // or after this many entries
)

// Marker writes the position of a log into a store, so that a log that was cut or put back from an older copy can be found.
//
// Invariant: the mark only moves forward along one log. Before the first move, Marker checks that the log contains the stored
// mark. If the log does not contain it, Marker leaves the mark in place for good, because a new mark would hide what happened.
type Marker struct {
	Log   *Log
	Store MarkStore
	Now   func() time.Time
	Slog  *slog.Logger
	// Scope names the store as it is since its last restore. A backup may be older than the first mark. A store that was
	// restored from it has no mark, and nobody has removed one.
	Scope string

	mu      sync.Mutex
	known   bool // last is the stored mark, and the log contains it
	last    Mark
	moved   time.Time
	said    bool // the log says that it is marked
	failing bool // the last call of the store failed

	problem atomic.Pointer[string] // why the log is not the marked one; readers must not wait for the store
}

// Problem says that the log is not the one that was marked. Problem is "" while there is nothing to report.
func (m *Marker) Problem() string {
	if why := m.problem.Load(); why != nil {
		return *why
	}
	return ""
}

// Run writes marks until ctx ends.
func (m *Marker) Run(ctx context.Context) error {
	for {
		m.Step(ctx, false)
		if !pause.For(ctx, markTick) {
			return nil
		}
	}
}

// Step writes a mark if one is due, or if the argument `now` is true and the log has grown. A store that fails is tried again
// with the next step.
func (m *Marker) Step(ctx context.Context, now bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.step(ctx, now)
	if err != nil && ctx.Err() == nil && !m.failing && m.Slog != nil {
		m.Slog.Warn("the mark of the audit log cannot be written to the store", "error", err)
	}
	m.failing = err != nil
}

func (m *Marker) step(ctx context.Context, now bool) error {
	if m.Problem() != "" {
		return nil
	}
	if !m.known {
		if err := m.adopt(ctx); err != nil || !m.known {
			return err
		}
	}
	seq, hash := m.Log.Position()
	at := m.Now()
	if seq <= m.last.Sequence || !now && at.Sub(m.moved) < markAfter && seq-m.last.Sequence < markEntries {
		return nil
	}
	next := Mark{Server: m.Log.cfg.Server, Sequence: seq, Hash: hash, Key: m.Log.Key(), Time: at.UTC().Truncate(time.Microsecond)}
	err := m.Store.MoveAuditMark(ctx, m.last, next)
	if ares.CodeOf(err) == ares.Conflict {
		m.known = false // the store was restored, or another server has the same name: the next step finds out
	}
	if err == nil {
		m.last, m.moved = next, at
		m.say()
	}
	return err
}

// The method `adopt` reads the stored mark and checks that this log contains it. The caller holds m.mu.
func (m *Marker) adopt(ctx context.Context) error {
	stored, err := m.Store.AuditMark(ctx, m.Log.cfg.Server)
	if err != nil {
		return err
	}
	if stored.Sequence == 0 {
		return m.first(ctx, stored)
	}
	contained, err := m.Log.Contains(ctx, stored)
	if err != nil {
		return err
	}
	seq, _ := m.Log.Position()
	switch at := stored.Time.UTC().Format(time.RFC3339); {
	case !contained:
		m.report(stored, fmt.Sprintf("the audit log of server %s has %d entries and lacks entry %d as the store remembers it from %s: it was cut, or an older copy was put back (run `ares audit verify`)",
			m.Log.cfg.Server, seq, stored.Sequence, at),
			fmt.Sprintf("the mark in the store is entry %d of %s, which this log lacks", stored.Sequence, at))
	case stored.Key != "" && stored.Key != m.Log.Key():
		m.report(stored, fmt.Sprintf("the audit log of server %s is signed with another key than the store remembers from %s: somebody replaced the key (run `ares audit verify`)", m.Log.cfg.Server, at),
			fmt.Sprintf("the mark in the store of %s names another key", at))
	default:
		m.last, m.known = stored, true
		m.say()
	}
	return nil
}

// The method `first` accepts that the store has no mark, unless the log says that this store had one since its last restore.
func (m *Marker) first(ctx context.Context, none Mark) error {
	page := Page{Next: ^uint64(0)}
	for page.Next > 0 && len(page.Entries) == 0 {
		var err error
		if page, err = m.Log.List(ctx, Query{Action: ActionMarked, Object: m.Scope, From: page.Next, Limit: 1}); err != nil {
			return err
		}
	}
	if len(page.Entries) > 0 {
		e := &page.Entries[0]
		m.report(none, fmt.Sprintf("the store has no mark of the audit log of server %s, although entry %d of %s says that it had one: somebody removed the mark (run `ares audit verify`)",
			m.Log.cfg.Server, e.Sequence, e.Time.UTC().Format(time.RFC3339)), fmt.Sprintf("the mark of entry %d was removed from the store", e.Sequence))
		return nil
	}
	m.last, m.known = none, true
	return nil
}

// The method `say` writes into the log that the store has a mark of it, once after each start. So a mark that is removed later is missed. The mark
// is in the store before, because otherwise a crash between the two would look like a removed mark.
func (m *Marker) say() {
	if m.said || m.last.Sequence == 0 {
		return
	}
	m.said = true
	m.Log.Note(Entry{Action: ActionMarked, Status: Done, Object: m.Scope, Detail: fmt.Sprintf("the store has a mark of this log at entry %d", m.last.Sequence)})
}

// The method `report` keeps a problem, and writes it into the log.
func (m *Marker) report(stored Mark, why, detail string) {
	m.problem.Store(&why)
	if m.Slog != nil {
		m.Slog.Error("the audit log is not the one that was marked in the store", "reason", why)
	}
	m.Log.Note(Entry{Action: ActionBehind, Status: Done, Object: "audit/" + m.Log.cfg.Server, Before: stored.Hash, Detail: detail})
}
