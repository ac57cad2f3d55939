package recording

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// maxQueued is how many batches and decisions may be queued for writing.
const maxQueued = 8192

// flushEvery limits how much of a recording is lost in a crash.
const flushEvery = time.Second

// These constants are in seconds.
const (
	digestAfter = 60 // between two digests of an open file that has grown
	retryAfter  = 30 // between a failure of the disk and the next try
)

// DecisionRecorder records the input and the decisions of a loop's engine, in order, for `ares sim replay`. Each recording file
// begins with a snapshot, so it can be replayed by itself.
//
// The loop never waits for the recorder. If the disk is too slow, the recording file ends with a
// mark that gives this reason. An incomplete recording file is followed by a new file, which begins
// with a new snapshot. If the disk fails, Problem says so, and a new file is tried after a while.
type DecisionRecorder struct {
	Dir      string
	Bytes    int64 // approximate size of a file; it is larger if the snapshot is more than half of it
	Files    int   // number of files kept, including the current one
	MaxBytes int64 // size of all files together; the oldest are removed beyond it, and the current one is kept. 0 means no limit
	// Header returns the header for a new file.
	Header func() Header
	Log    *slog.Logger
	// Room returns an error if the disk has too little free space for recordings. It is asked once a second, and may be nil.
	Room func() error
	// Wrote is called with the digest of a file when its snapshot is on disk, from time to time while it grows, and at its end.
	// Removed is called before a file is removed because of Files or MaxBytes. Both may be nil. The loop does not wait for them.
	Wrote   func(FileDigest)
	Removed func(Removal)
	// Stopped is called with the reason when decisions can no longer be recorded. It may be nil.
	Stopped func(why string)

	queue   chan item
	behind  atomic.Bool // something is missing from the current file
	turn    atomic.Bool // the next batch begins a new file
	failed  atomic.Bool // nothing is written until the next try
	problem atomic.Pointer[error]
	size    atomic.Int64     // of all files
	ticks   <-chan time.Time // once a second; tests have their own

	on    bool  // true while a file is open and complete; used only by the loop
	empty int64 // revision of the last recorded decision that changed nothing; used only by the loop
}

// The type `item` is a batch or a plan that is queued for writing.
type item struct {
	begins bool // a new file
	batch  *ares.Batch
	plan   *ares.Plan
}

// NewDecisionRecorder returns a recorder without a file.
func NewDecisionRecorder(dir string, bytes int64, files int, log *slog.Logger, header func() Header) *DecisionRecorder {
	t := &DecisionRecorder{Dir: dir, Bytes: bytes, Files: files, Header: header, Log: log, queue: make(chan item, maxQueued), empty: -1}
	t.turn.Store(true)
	return t
}

// Problem says why decisions are not being recorded, or "" if they are.
func (t *DecisionRecorder) Problem() string {
	if err := t.problem.Load(); err != nil {
		return fmt.Sprintf("decisions are not being recorded in %s: %s (scheduling goes on)", t.Dir, *err)
	}
	return ""
}

// Size returns the size of all recording files, in bytes.
func (t *DecisionRecorder) Size() int64 { return t.size.Load() }

// RecordBatch records a batch after the engine's state has applied the batch. RecordBatch is called
// with the loop's lock held.
func (t *DecisionRecorder) RecordBatch(s *engine.State, b ares.Batch) {
	switch {
	case t.failed.Load():
	case t.turn.CompareAndSwap(true, false):
		t.on, t.empty = true, -1
		if !b.Reset {
			b = s.Snapshot()
		}
		t.put(item{begins: true, batch: &b})
	default:
		t.put(item{batch: &b})
	}
}

// RecordPlan records a plan before the plan changes the engine's state. RecordPlan is called with
// the loop's lock held. An idle loop makes empty plans from time to time. Only the first empty
// plan of a revision is recorded.
func (t *DecisionRecorder) RecordPlan(p ares.Plan) {
	if p.Empty() {
		if p.Revision == t.empty {
			return
		}
		t.empty = p.Revision
	}
	t.put(item{plan: &p})
}

func (t *DecisionRecorder) put(it item) {
	if !t.on {
		return
	}
	select {
	case t.queue <- it:
	default:
		t.on = false
		t.behind.Store(true)
	}
}

// Run writes the recording until ctx ends, and then writes the queued items. If the disk fails, Run drops the queued items
// and tries a new file after a while.
func (t *DecisionRecorder) Run(ctx context.Context) error {
	f := &recordingFile{recorder: t}
	ticks := t.ticks
	if ticks == nil {
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		ticks = tick.C
	}
	for {
		var err error
		select {
		case it := <-t.queue:
			err = f.take(it)
		case <-ticks:
			if t.failed.Load() {
				f.waited++
				t.tryAgain(f.waited)
				continue
			}
			err = f.tick()
		case <-ctx.Done():
			if err = f.drain(); err != nil {
				t.fail(err)
			}
			return nil
		}
		if err == nil && t.behind.Load() && len(t.queue) == 0 {
			err = f.fellBehind()
		}
		if err != nil {
			f.waited = 0
			t.fail(errors.Join(err, f.abandon()))
		}
	}
}

// The method `fail` ends the recording for a while. The server continues.
func (t *DecisionRecorder) fail(err error) {
	if t.problem.Swap(&err) == nil {
		t.Log.Error("decisions are not being recorded; scheduling goes on", "dir", t.Dir, "error", err)
		if t.Stopped != nil {
			t.Stopped(err.Error())
		}
	}
	t.failed.Store(true)
}

// tryAgain lets the next batch begin a new file, once enough seconds have passed since the failure.
func (t *DecisionRecorder) tryAgain(seconds int) {
	if seconds < retryAfter {
		return
	}
	t.turn.Store(true)
	t.failed.Store(false)
}

// recordingFile is the recording file that is being written.
type recordingFile struct {
	recorder *DecisionRecorder
	file     *os.File
	writer   *Writer
	made     int
	first    int64 // size of the snapshot
	asked    bool  // a snapshot for the next file was requested

	name      string
	sum       hash.Hash // of all bytes that were written to the file
	decisions int
	buffered  bool  // something was written since the last flush
	fresh     bool  // something other than an empty batch or an empty plan was recorded since the last digest
	seconds   int   // since the last digest
	waited    int   // seconds since the disk failed
	older     int64 // size of the files before this one
}

func (f *recordingFile) take(it item) error {
	if it.begins {
		return f.turn(it.batch)
	}
	if f.writer == nil {
		return nil
	}
	var err error
	f.buffered = true
	if it.batch != nil {
		f.fresh = f.fresh || len(it.batch.Events) > 0
		err = f.writer.Batch(*it.batch)
	} else {
		f.fresh = f.fresh || !it.plan.Empty()
		f.decisions++
		err = f.writer.Decision(DecisionOf(it.plan))
	}
	// A snapshot may be larger than the limit Bytes. Therefore a file may always grow to twice the size of
	// its snapshot. Otherwise recordings would contain only snapshots.
	if err == nil && !f.asked && f.writer.Size() > max(f.recorder.Bytes, 2*f.first) {
		f.asked = true
		f.recorder.turn.Store(true)
	}
	return err
}

// The method `turn` closes the current file with an end mark and begins the next file with a snapshot.
func (f *recordingFile) turn(snapshot *ares.Batch) error {
	if err := f.end(EndContinued); err != nil {
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
	if err == nil {
		err = f.digest("")
	}
	if err == nil && f.recorder.problem.Swap(nil) != nil {
		f.recorder.Log.Warn("decisions are being recorded again", "dir", f.recorder.Dir)
	}
	return err
}

// The method `begin` creates a new file and removes the oldest files.
func (f *recordingFile) begin() error {
	t := f.recorder
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for recordings: %w", err)
	}
	if t.Room != nil {
		if err := t.Room(); err != nil {
			return err
		}
	}
	h := t.Header()
	f.made++
	f.name = fmt.Sprintf("%s-%04d%s", h.Began.UTC().Format("20060102T150405.000"), f.made, Suffix)
	// The file contains the command lines of jobs, so only its owner may read it.
	name := filepath.Join(t.Dir, f.name)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("begin a recording: %w", err)
	}
	f.file, f.asked, f.sum, f.decisions = file, false, sha256.New(), 0
	if f.writer, err = NewWriter(io.MultiWriter(file, f.sum), h); err != nil {
		return err
	}
	t.Log.Info("recording", "file", name)
	f.older, err = t.prune(f.name, 0)
	return err
}

// The method `tick` writes buffered data to the file, once a second.
func (f *recordingFile) tick() error {
	if f.writer == nil {
		return nil
	}
	if f.buffered { // a flush without data would still make the file grow
		f.buffered = false
		if err := f.writer.Flush(); err != nil {
			return fmt.Errorf("write recording: %w", err)
		}
	}
	t := f.recorder
	if t.Room != nil {
		if err := t.Room(); err != nil {
			return err
		}
	}
	if err := f.bound(); err != nil {
		return err
	}
	if f.seconds++; f.seconds < digestAfter || !f.fresh {
		return nil
	}
	return f.digest("")
}

// The method `bound` removes the oldest files when all files together are larger than the limit.
func (f *recordingFile) bound() error {
	t, size := f.recorder, f.writer.Size()
	t.size.Store(f.older + size)
	if t.MaxBytes <= 0 || f.older == 0 || f.older+size <= t.MaxBytes {
		return nil
	}
	var err error
	f.older, err = t.prune(f.name, size)
	return err
}

// The method `end` closes the file with an end mark. What was written last can exceed the limit, so the limit is applied here
// too: the next file may never come.
func (f *recordingFile) end(why string) error {
	if f.writer == nil {
		return nil
	}
	err := f.writer.Close(why)
	if err == nil {
		err = f.digest(why)
	}
	err = errors.Join(err, f.file.Close())
	if err == nil {
		err = f.bound()
	}
	f.writer, f.file = nil, nil
	return err
}

func (f *recordingFile) fellBehind() error {
	f.recorder.Log.Warn("the disk was too slow for the recording: what follows is missing, until a new file begins", "dir", f.recorder.Dir)
	err := f.end(EndBehind)
	f.recorder.behind.Store(false)
	f.recorder.turn.Store(true)
	return err
}

// The method `drain` writes the queued items and closes the file with an end mark.
func (f *recordingFile) drain() error {
	for {
		select {
		case it := <-f.recorder.queue:
			if err := f.take(it); err != nil {
				return errors.Join(err, f.abandon())
			}
		default:
			if f.recorder.behind.Load() {
				return f.end(EndBehind)
			}
			return f.end(EndClosed)
		}
	}
}

// The method `abandon` closes a file that cannot be written.
func (f *recordingFile) abandon() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.writer, f.file = nil, nil
	return err
}
