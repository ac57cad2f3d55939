package recording

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// maxQueued is how many batches and decisions may be queued for writing.
const maxQueued = 8192

// flushEvery limits how much of a recording is lost in a crash.
const flushEvery = time.Second

// DecisionRecorder records the input and the decisions of a loop's engine, in order, for `ares sim replay`. Each recording file
// begins with a snapshot, so it can be replayed by itself.
//
// The loop never waits for the recorder. If the disk is too slow, the recording file ends with a
// mark that gives this reason. An incomplete recording file is followed by a new file, which begins
// with a new snapshot. If the disk fails, the recording ends.
type DecisionRecorder struct {
	Dir   string
	Bytes int64 // approximate size of a file; it is larger if the snapshot is more than half of it
	Files int   // number of files kept, including the current one
	// Header returns the header for a new file.
	Header func() Header
	Log    *slog.Logger

	queue  chan item
	behind atomic.Bool // something is missing from the current file
	turn   atomic.Bool // the next batch begins a new file
	failed atomic.Bool

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

// Run writes the recording until ctx ends, and then writes the queued items.
func (t *DecisionRecorder) Run(ctx context.Context) error {
	f := &recordingFile{recorder: t}
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case it := <-t.queue:
			err = f.take(it)
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

// The method `over` logs the error that ended the recording. The server continues.
func (t *DecisionRecorder) over(err error) error {
	if err != nil {
		t.Log.Error("the recording has ended; scheduling goes on", "dir", t.Dir, "error", err)
	}
	return nil
}

// recordingFile is the recording file that is being written.
type recordingFile struct {
	recorder *DecisionRecorder
	file     *os.File
	writer   *Writer
	made     int
	first    int64 // size of the snapshot
	asked    bool  // a snapshot for the next file was requested
}

func (f *recordingFile) take(it item) error {
	if it.begins {
		return f.turn(it.batch)
	}
	if f.writer == nil {
		return nil
	}
	var err error
	if it.batch != nil {
		err = f.writer.Batch(*it.batch)
	} else {
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
	return err
}

// The method `begin` creates a new file and removes the oldest files.
func (f *recordingFile) begin() error {
	t := f.recorder
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for recordings: %w", err)
	}
	h := t.Header()
	f.made++
	// The file contains the environments of jobs, so only its owner may read it.
	name := filepath.Join(t.Dir, fmt.Sprintf("%s-%04d%s", h.Began.UTC().Format("20060102T150405.000"), f.made, Suffix))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("begin a recording: %w", err)
	}
	f.file, f.asked = file, false
	if f.writer, err = NewWriter(file, h); err != nil {
		return err
	}
	t.Log.Info("recording", "file", name)
	return t.prune()
}

// The method `prune` removes the oldest recordings.
func (t *DecisionRecorder) prune() error {
	names, err := filepath.Glob(filepath.Join(t.Dir, "*"+Suffix))
	if err != nil {
		return err
	}
	slices.Sort(names) // names begin with the time
	for _, name := range names[:max(len(names)-t.Files, 0)] {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove an old recording: %w", err)
		}
	}
	return nil
}

func (f *recordingFile) flush() error {
	if f.writer == nil {
		return nil
	}
	return f.writer.Flush()
}

func (f *recordingFile) end(why string) error {
	if f.writer == nil {
		return nil
	}
	err := f.writer.Close(why)
	err = errors.Join(err, f.file.Close())
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
