package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
)

// maxTape is how many batches and decisions may wait to be written.
const maxTape = 8192

// flushEvery bounds what a crash takes from a recording.
const flushEvery = time.Second

// Tape records what a loop's engine sees and decides, in the order in which it
// does, for `ares sim replay`. Every file begins with a snapshot, so each can be
// replayed by itself.
//
// The loop never waits for it. When the disk is slower than the loop, the file
// ends with a mark that says so, and the next one begins with a new snapshot as
// soon as the first is written. When the disk fails, the recording is over.
type Tape struct {
	Dir   string
	Bytes int64 // of a file, about, before the next is begun; more where a snapshot is half of that
	Files int   // that are kept, the one under way included
	// Header is that of a file which begins now.
	Header func() recording.Header
	Log    *slog.Logger

	queue  chan taped
	behind atomic.Bool // something was left out since the file began
	turn   atomic.Bool // the next batch begins a file
	failed atomic.Bool

	on    bool  // of the loop's: a file is begun and nothing was left out
	empty int64 // of the loop's: revision of the last decision that was recorded and changed nothing
}

// taped is one thing on its way to the file.
type taped struct {
	begins bool // a new file
	batch  *ares.Batch
	plan   *ares.Plan
}

// NewTape makes a tape that has recorded nothing yet.
func NewTape(dir string, bytes int64, files int, log *slog.Logger, header func() recording.Header) *Tape {
	t := &Tape{Dir: dir, Bytes: bytes, Files: files, Header: header, Log: log, queue: make(chan taped, maxTape), empty: -1}
	t.turn.Store(true)
	return t
}

// saw is told each batch once the state has it. The loop's lock is held.
func (t *Tape) saw(s *engine.State, b ares.Batch) {
	switch {
	case t.failed.Load():
	case t.turn.CompareAndSwap(true, false):
		t.on, t.empty = true, -1
		if !b.Reset {
			b = s.Snapshot()
		}
		t.put(taped{begins: true, batch: &b})
	default:
		t.put(taped{batch: &b})
	}
}

// decided is told each plan before the state moves on. The loop's lock is held.
// A loop that rests looks again now and then: what it did not find twice at one
// revision is recorded once.
func (t *Tape) decided(p ares.Plan) {
	if p.Empty() {
		if p.Revision == t.empty {
			return
		}
		t.empty = p.Revision
	}
	t.put(taped{plan: &p})
}

func (t *Tape) put(item taped) {
	if !t.on {
		return
	}
	select {
	case t.queue <- item:
	default:
		t.on = false
		t.behind.Store(true)
	}
}

// Run writes until ctx ends, and then what is left.
func (t *Tape) Run(ctx context.Context) error {
	f := &tapeFile{tape: t}
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case item := <-t.queue:
			err = f.take(item)
		case <-tick.C:
			err = f.flush()
		case <-ctx.Done():
			return t.over(f.drain())
		}
		if err == nil && t.behind.Load() && len(t.queue) == 0 {
			err = f.fellBehind()
		}
		if err != nil {
			t.failed.Store(true)
			return t.over(errors.Join(err, f.abandon()))
		}
	}
}

// over tells why the recording ended, if it should not have. The server goes on.
func (t *Tape) over(err error) error {
	if err != nil {
		t.Log.Error("the recording has ended; scheduling goes on", "dir", t.Dir, "error", err)
	}
	return nil
}

// tapeFile is the file under way.
type tapeFile struct {
	tape   *Tape
	file   *os.File
	writer *recording.Writer
	made   int
	first  int64 // size of its snapshot
	asked  bool  // for the next one
}

func (f *tapeFile) take(item taped) error {
	if item.begins {
		return f.turn(item.batch)
	}
	if f.writer == nil {
		return nil
	}
	var err error
	if item.batch != nil {
		err = f.writer.Batch(*item.batch)
	} else {
		err = f.writer.Decision(recording.DecisionOf(item.plan))
	}
	// A snapshot may be larger than a file should be: what follows it is then as
	// long as it, or there would be nothing but snapshots.
	if err == nil && !f.asked && f.writer.Size() > max(f.tape.Bytes, 2*f.first) {
		f.asked = true
		f.tape.turn.Store(true)
	}
	return err
}

// turn ends the file and begins another with a snapshot.
func (f *tapeFile) turn(snapshot *ares.Batch) error {
	if err := f.end(recording.EndContinued); err != nil {
		return err
	}
	if err := f.begin(); err != nil {
		return err
	}
	if err := f.writer.Batch(*snapshot); err != nil {
		return err
	}
	err := f.writer.Flush()
	f.first = f.writer.Size()
	return err
}

// begin makes a file and removes those that are too many.
func (f *tapeFile) begin() error {
	t := f.tape
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of recordings: %w", err)
	}
	h := t.Header()
	f.made++
	// Jobs' environments are in it: it is for its owner alone.
	name := filepath.Join(t.Dir, fmt.Sprintf("%s-%04d%s", h.Began.UTC().Format("20060102T150405.000"), f.made, recording.Suffix))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("begin a recording: %w", err)
	}
	f.file, f.asked = file, false
	if f.writer, err = recording.NewWriter(file, h); err != nil {
		return err
	}
	t.Log.Info("recording", "file", name)
	return t.prune()
}

// prune removes the oldest recordings.
func (t *Tape) prune() error {
	names, err := filepath.Glob(filepath.Join(t.Dir, "*"+recording.Suffix))
	if err != nil {
		return err
	}
	slices.Sort(names) // they begin with their time
	for _, name := range names[:max(len(names)-t.Files, 0)] {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove an old recording: %w", err)
		}
	}
	return nil
}

func (f *tapeFile) flush() error {
	if f.writer == nil {
		return nil
	}
	return f.writer.Flush()
}

func (f *tapeFile) end(why string) error {
	if f.writer == nil {
		return nil
	}
	err := f.writer.Close(why)
	err = errors.Join(err, f.file.Close())
	f.writer, f.file = nil, nil
	return err
}

func (f *tapeFile) fellBehind() error {
	f.tape.Log.Warn("the disk was too slow for the recording: what follows is missing, until a new file begins", "dir", f.tape.Dir)
	err := f.end(recording.EndBehind)
	f.tape.behind.Store(false)
	f.tape.turn.Store(true)
	return err
}

// drain writes what is left and ends the file.
func (f *tapeFile) drain() error {
	for {
		select {
		case item := <-f.tape.queue:
			if err := f.take(item); err != nil {
				return errors.Join(err, f.abandon())
			}
		default:
			if f.tape.behind.Load() {
				return f.end(recording.EndBehind)
			}
			return f.end(recording.EndClosed)
		}
	}
}

// abandon closes a file that cannot be written.
func (f *tapeFile) abandon() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.writer, f.file = nil, nil
	return err
}

// Snapshot writes what decisions are made from at this moment, as a recording
// of one batch. Only taking it holds the loop up, not writing it.
func (l *Loop) Snapshot(w io.Writer, build string) error {
	l.mu.Lock()
	b, cfg := l.state.Snapshot(), l.state.Config()
	l.mu.Unlock()
	out, err := recording.NewWriter(w, recording.NewHeader(l.Server, build, cfg, l.Now()))
	if err != nil {
		return err
	}
	if err = out.Batch(b); err != nil {
		return err
	}
	return out.Close(recording.EndSnapshot)
}
