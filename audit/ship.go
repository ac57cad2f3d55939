package audit

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ares-scheduler/ares/pause"
)

// Sink collects the audit log entries of many servers. The sink itself stores the number of the last entry that it
// received from each server. Because of these numbers, shipping continues correctly after a restart of the server, or
// after the sink was restored from a backup.
type Sink interface {
	// Reached returns the sequence number of the last entry of a server's log that the sink holds, or 0
	// if it holds none.
	Reached(ctx context.Context, server string) (uint64, error)
	// Take adds entries of one server, in order. Take skips entries that the sink already holds. Take adds either all new
	// entries or none of them.
	Take(ctx context.Context, entries []Entry) error
}

// These constants limit the shipping of entries.
const (
	shipAtOnce = 2000
	shipEvery  = time.Second
	// shipShare limits the time for which Run ships entries: after each step, it rests shipShare times as long. So a burst of calls
	// leaves the processor and the database to the calls. The entries are durable in the log before a call is answered, and a query
	// ships what is left before it reads the sink.
	shipShare = 9
	// maxShipBacklog is the number of entries that may wait for the sink. If there are more, Run does not rest.
	maxShipBacklog = 50_000
	shipAfter      = 30 * time.Second // pause after a failure
	stepWithin     = 30 * time.Second // time limit for one answer of the sink
)

// Shipper sends a server's entries to a sink, in order. If the sink does not answer, only the removal of old segments is delayed.
type Shipper struct {
	Log  *Log
	Sink Sink
	// After each attempt to ship entries, the function Told is called with the number of shipped entries and the error. This
	// function may be nil.
	Told func(entries int, err error)
	// Slog logs when a sink starts to fail and when it works again. Slog may be nil.
	Slog *slog.Logger

	reached atomic.Uint64
}

// Reached returns the sequence number of the last entry that the sink is known to hold.
func (s *Shipper) Reached() uint64 { return s.reached.Load() }

// Behind returns how many entries the sink does not hold yet, as far as the server knows.
func (s *Shipper) Behind() uint64 {
	seq, _ := s.Log.Position()
	return seq - min(seq, s.reached.Load())
}

// Run ships entries until ctx ends.
func (s *Shipper) Run(ctx context.Context) error {
	failing := false
	for {
		err := s.ship(ctx, s.rest)
		if ctx.Err() != nil {
			return nil
		}
		if s.Slog != nil && (err != nil) != failing {
			s.logChange(err)
		}
		failing = err != nil
		wait := shipEvery
		if failing {
			wait = shipAfter
		}
		if !pause.For(ctx, wait) {
			return nil
		}
	}
}

// logChange logs that the sink has started to fail, or that it works again.
func (s *Shipper) logChange(err error) {
	if err != nil {
		s.Slog.Warn("the audit log is not shipped to history, and this is tried again", "error", err)
		return
	}
	s.Slog.Info("the audit log is shipped to history again")
}

// Ship sends all entries that are on disk. Concurrent calls of Ship are safe, because the sink skips entries that it
// already holds.
func (s *Shipper) Ship(ctx context.Context) error { return s.ship(ctx, nil) }

// rest pauses after a step that took a time, unless too many entries wait.
func (s *Shipper) rest(ctx context.Context, took time.Duration) {
	if s.Behind() <= maxShipBacklog {
		pause.For(ctx, min(shipShare*took, shipEvery))
	}
}

// The method `ship` sends all entries that are on disk. It calls the function `rest` after each step with the duration of the step.
// This function may be nil.
func (s *Shipper) ship(ctx context.Context, rest func(context.Context, time.Duration)) error {
	at, err := s.reach(ctx)
	if seq, _ := s.Log.Position(); err == nil && at > seq {
		err = fmt.Errorf("the audit log ends with entry %d, but the history database has entries up to %d: they come from another audit log with the same server name (%s)", seq, at, s.Log.cfg.Server)
	}
	if err != nil {
		s.report(0, err)
		return err
	}
	s.reached.Store(at)
	for {
		began := time.Now()
		page, err := s.Log.List(ctx, Query{OldestFirst: true, From: at + 1, Limit: shipAtOnce})
		if err == nil && len(page.Entries) > 0 {
			err = s.shipConsecutive(ctx, page.Entries, at)
		}
		if err != nil {
			s.report(0, err)
			return err
		}
		if len(page.Entries) == 0 {
			return nil
		}
		at = page.Entries[len(page.Entries)-1].Sequence
		s.reached.Store(at)
		s.report(len(page.Entries), nil)
		if rest != nil {
			rest(ctx, time.Since(began))
			at = max(at, s.reached.Load()) // a query may have shipped entries meanwhile
		}
	}
}

func (s *Shipper) reach(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return s.Sink.Reached(ctx, s.Log.cfg.Server)
}

// shipConsecutive sends entries to the sink if their sequence numbers are consecutive. A gap means that List could not
// read an entry. Entries after a gap are not shipped, because the sink's copy would then look complete although it is
// not. If entries before the first one in the log are missing, that is not a gap. The log has removed them because of
// their age.
func (s *Shipper) shipConsecutive(ctx context.Context, entries []Entry, at uint64) error {
	next := entries[0].Sequence
	if at > 0 {
		next = at + 1
	}
	for i := range entries {
		if entries[i].Sequence != next+uint64(i) {
			return fmt.Errorf("entry %d of the audit log cannot be read: run `ares audit verify` for details", next+uint64(i))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return s.Sink.Take(ctx, entries)
}

func (s *Shipper) report(n int, err error) {
	if s.Told != nil {
		s.Told(n, err)
	}
}
