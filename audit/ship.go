package audit

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Sink keeps entries of many servers' logs together. It is the sink that
// remembers how far it has come, so a server that starts anew, or a sink that is
// put back from a backup, goes on where the sink is.
type Sink interface {
	// Reached is the last entry of a server's log that the sink holds, 0 for none.
	Reached(ctx context.Context, server string) (uint64, error)
	// Take adds entries of one server, in order, each once: those that it holds
	// already are passed over. All are taken or none.
	Take(ctx context.Context, entries []Entry) error
}

// Bounds of shipping.
const (
	shipAtOnce = 500
	shipEvery  = time.Second
	shipAfter  = 30 * time.Second // a failure
	stepWithin = 30 * time.Second // the sink answers, or has failed
)

// Shipper hands a server's entries to a sink, in order. A sink that does not
// answer delays nothing but the removal of old segments.
type Shipper struct {
	Log  *Log
	Sink Sink
	// Told hears how many entries went and why no more did. May be nil.
	Told func(entries int, err error)
	// Slog hears of a sink that begins or ceases to fail. May be nil.
	Slog *slog.Logger

	reached atomic.Uint64
}

// Reached is the last entry that the sink is known to hold.
func (s *Shipper) Reached() uint64 { return s.reached.Load() }

// Behind is how many entries the sink is not known to hold.
func (s *Shipper) Behind() uint64 {
	seq, _ := s.Log.Position()
	return seq - min(seq, s.reached.Load())
}

// Run ships until ctx ends.
func (s *Shipper) Run(ctx context.Context) error {
	failing := false
	for {
		err := s.Ship(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.Slog != nil && (err != nil) != failing {
			s.Slog.Warn("the audit log goes to history", "failing", err != nil, "error", err)
		}
		failing = err != nil
		pause := shipEvery
		if failing {
			pause = shipAfter
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// Ship hands over everything that is safe by now. Several may at once: what the
// sink has it passes over.
func (s *Shipper) Ship(ctx context.Context) error {
	at, err := s.reach(ctx)
	if seq, _ := s.Log.Position(); err == nil && at > seq {
		err = fmt.Errorf("the log ends with entry %d and %d are there already: it is another log of a server with the name %s", seq, at, s.Log.cfg.Server)
	}
	if err != nil {
		s.tell(0, err)
		return err
	}
	s.reached.Store(at)
	for {
		page, err := s.Log.List(ctx, Query{OldestFirst: true, From: at + 1, Limit: shipAtOnce})
		if err == nil && len(page.Entries) > 0 {
			err = s.hand(ctx, page.Entries, at)
		}
		if err != nil {
			s.tell(0, err)
			return err
		}
		if len(page.Entries) == 0 {
			return nil
		}
		at = page.Entries[len(page.Entries)-1].Sequence
		s.reached.Store(at)
		s.tell(len(page.Entries), nil)
	}
}

func (s *Shipper) reach(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return s.Sink.Reached(ctx, s.Log.cfg.Server)
}

// hand passes entries on that follow each other. One that List could not read
// makes a gap, and what is behind a gap is not shipped: it would look whole there.
// Those before the first were removed by age.
func (s *Shipper) hand(ctx context.Context, entries []Entry, at uint64) error {
	next := entries[0].Sequence
	if at > 0 {
		next = at + 1
	}
	for i := range entries {
		if entries[i].Sequence != next+uint64(i) {
			return fmt.Errorf("entry %d of the audit log cannot be read: see `ares audit verify`", next+uint64(i))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return s.Sink.Take(ctx, entries)
}

func (s *Shipper) tell(n int, err error) {
	if s.Told != nil {
		s.Told(n, err)
	}
}
