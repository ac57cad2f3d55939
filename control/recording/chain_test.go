package recording

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/engine"
)

// The type `chained` collects what a recorder reports for the audit log.
type chained struct {
	mu      sync.Mutex
	digests []FileDigest
	removed []Removal
}

func (c *chained) attach(r *DecisionRecorder) {
	r.Wrote = func(d FileDigest) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.digests = append(c.digests, d)
	}
	r.Removed = func(gone Removal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.removed = append(c.removed, gone)
	}
}

func (c *chained) counts() (digests, removed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.digests), len(c.removed)
}

// TestDigestsOfRecordings checks that each file is reported with its snapshot and at its end, that every reported digest is the
// digest of the beginning of the file, and that the number of decisions is right.
func TestDigestsOfRecordings(t *testing.T) {
	t.Parallel()
	b := newBand(t, 10_000, 1000, slog.New(slog.DiscardHandler))
	var c chained
	c.attach(b.recorder)
	stop := start(t, b.recorder)
	for range 600 {
		b.step(t)
		for len(b.recorder.queue) > 0 {
			runtime.Gosched()
		}
	}
	stop()
	files := recordings(t, b.recorder)
	if len(files) < 2 {
		t.Fatalf("only %d files", len(files))
	}
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var own []FileDigest
		for _, d := range c.digests {
			if d.File == filepath.Base(file) {
				own = append(own, d)
			}
		}
		if len(own) < 2 || own[0].Decisions != 0 || own[0].End != "" {
			t.Fatalf("file %d is reported as %+v", i+1, own)
		}
		for _, d := range own {
			if sum := sha256.Sum256(data[:d.Bytes]); hex.EncodeToString(sum[:]) != d.SHA256 {
				t.Errorf("file %d: the digest of %d bytes is another one", i+1, d.Bytes)
			}
		}
		decisions, _, _, end := replayed(t, file)
		if last := own[len(own)-1]; last.End != end || last.Bytes != int64(len(data)) || last.Decisions != decisions {
			t.Errorf("file %d with %d bytes, %d decisions, %q is reported as %+v", i+1, len(data), decisions, end, last)
		}
	}
}

// TestDigestOfAnOpenRecording checks that an open file is reported once a minute if it has grown, and not otherwise. An empty batch is no
// growth: each digest is an audit entry, the entry moves the mark in the store, and the mark is an empty batch.
func TestDigestOfAnOpenRecording(t *testing.T) {
	t.Parallel()
	b := newBand(t, 1<<30, 10, slog.New(slog.DiscardHandler))
	var c chained
	c.attach(b.recorder)
	ticks := make(chan time.Time)
	b.recorder.ticks = ticks
	stop := start(t, b.recorder)
	minute := func(want int, why string) {
		t.Helper()
		for len(b.recorder.queue) > 0 {
			runtime.Gosched()
		}
		for range digestAfter + 1 { // the last tick is taken after the one that reports has ended
			ticks <- time.Time{}
		}
		if got, _ := c.counts(); got != want {
			t.Errorf("%s: %d digests, want %d", why, got, want)
		}
	}
	minute(1, "the snapshot")
	b.step(t)
	minute(2, "a job")
	size := b.recorder.Size()
	b.apply(false)
	minute(2, "an empty batch")
	if size == 0 || b.recorder.Size() < size {
		t.Errorf("the size went from %d to %d", size, b.recorder.Size())
	}
	size = b.recorder.Size()
	minute(2, "nothing")
	if b.recorder.Size() != size {
		t.Errorf("nothing was recorded, and the size went from %d to %d", size, b.recorder.Size())
	}
	b.step(t)
	minute(3, "another job")
	stop()
}

// TestRecordingsAreBounded checks that the oldest files are removed beyond the limit, that each removal is reported before, and
// that the limit holds while the current file grows.
func TestRecordingsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBand(t, 10_000, 1000, slog.New(slog.DiscardHandler))
	b.recorder.MaxBytes = 40_000
	var c chained
	c.attach(b.recorder)
	ticks := make(chan time.Time)
	b.recorder.ticks = ticks
	stop := start(t, b.recorder)
	most := int64(0)
	for i := range 3000 {
		b.step(t)
		for len(b.recorder.queue) > 0 {
			runtime.Gosched()
		}
		if i%10 == 0 {
			ticks <- time.Time{}
			ticks <- time.Time{}
			most = max(most, b.recorder.Size())
		}
	}
	for range 100 { // no tick follows, so the end must apply the limit to these
		b.step(t)
	}
	stop()
	files := recordings(t, b.recorder)
	total := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if most > b.recorder.MaxBytes || total > b.recorder.MaxBytes || len(files) < 2 {
		t.Errorf("%d files have %d bytes, and %d at the most; the limit is %d", len(files), total, most, b.recorder.MaxBytes)
	}
	ended := 0
	for _, d := range c.digests {
		if d.End != "" {
			ended++
		}
	}
	if _, removed := c.counts(); removed == 0 || removed+len(files) != ended {
		t.Errorf("%d files ended, %d are there, %d removals were reported", ended, len(files), removed)
	}
}

// TestEntriesOfRecordings checks that the entries of the audit log are read as they were written, and that other entries are
// not taken for them.
func TestEntriesOfRecordings(t *testing.T) {
	t.Parallel()
	for _, d := range []FileDigest{
		{File: "a.recording", Bytes: 12, Decisions: 3, SHA256: "ab", End: EndContinued},
		{File: "b.recording", Bytes: 1 << 40, SHA256: "cd"},
	} {
		e := d.Entry()
		if got, ok := ReadDigest(&e); !ok || got != d {
			t.Errorf("%+v is read as %+v, %v", d, got, ok)
		}
		if _, ok := ReadRemoval(&e); ok {
			t.Errorf("%+v is read as a removal", e)
		}
	}
	e := Removal{File: "a.recording", Bytes: 4}.Entry()
	if file, ok := ReadRemoval(&e); !ok || file != "a.recording" {
		t.Errorf("%+v is read as %q, %v", e, file, ok)
	}
	bad := []audit.Entry{
		{Action: ActionDigest, Object: ObjectPrefix + "../a.recording", Detail: "1 bytes, 1 decisions, open"},
		{Action: ActionDigest, Object: ObjectPrefix + "a.recording", Detail: "many bytes"},
		{Action: ActionDigest, Object: "job-1", Detail: "1 bytes, 1 decisions, open"},
		{Action: ActionDigest, Object: ObjectPrefix + "passwd", Detail: "1 bytes, 1 decisions, open"},
	}
	if i := slices.IndexFunc(bad, func(e audit.Entry) bool { _, ok := ReadDigest(&e); return ok }); i >= 0 {
		t.Errorf("%+v is read as a digest", bad[i])
	}
}

// BenchmarkRecorded measures how many decisions per second the engine makes without and with recording, in turns of 200 decisions. A decision
// is about one job, with the two batches of changes around it. The recording is written by the same goroutine, so the difference is the whole CPU
// time of recording. Only CPU time counts, so that other programs on the machine do not disturb the comparison.
func BenchmarkRecorded(b *testing.B) {
	const turn = 200
	var took [2]time.Duration
	var files [2]*recordingFile
	bands := [2]*recordedState{benchBand(b), benchBand(b)}
	var c chained
	for i, band := range bands {
		c.attach(band.recorder)
		files[i] = &recordingFile{recorder: band.recorder}
	}
	steps := func(i, n int) {
		for range n {
			bands[i].step(b)
			for len(bands[i].recorder.queue) > 0 {
				it := <-bands[i].recorder.queue
				if i == 0 {
					continue
				}
				if err := files[i].take(it); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	steps(0, turn)
	steps(1, turn)
	turns := 0
	for b.Loop() {
		for i := range bands {
			began := cpuTime(b)
			steps(i, turn)
			took[i] += cpuTime(b) - began
		}
		turns++
	}
	n := float64(turns * turn)
	b.ReportMetric(n/took[0].Seconds(), "decisions/s-off")
	b.ReportMetric(n/took[1].Seconds(), "decisions/s-on")
	b.ReportMetric(float64((took[1]-took[0]).Microseconds())/n, "µs/decision")
	b.ReportMetric(float64(files[1].writer.Size())/(n+turn), "B/decision")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchBand(b *testing.B) *recordedState {
	b.Helper()
	return newBand(b, 1<<40, 10, slog.New(slog.DiscardHandler))
}

// TestRecordingsHaveNoEnvironments checks that a recording contains no environment of a job, in snapshots and in changes, and that the engine's own
// job keeps it.
func TestRecordingsHaveNoEnvironments(t *testing.T) {
	t.Parallel()
	spec := ares.Spec{Tenant: "t", GPUs: 1, Environment: map[string]string{"PASSWORD": "correct-horse"}}
	job := &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("t", "1")}
	var file bytes.Buffer
	w, err := NewWriter(&file, NewHeader("s", "v", engine.New().Config(), time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	for _, reset := range []bool{true, false} {
		if err = w.Batch(ares.Batch{Revision: 1, Reset: reset, Events: []ares.Event{{Job: job, Revision: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err = w.Close(EndClosed); err != nil {
		t.Fatal(err)
	}
	if len(job.Environment) != 1 {
		t.Error("the engine's job lost its environment")
	}
	zip, err := gzip.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil || bytes.Contains(text, []byte("correct-horse")) || bytes.Contains(text, []byte("PASSWORD")) {
		t.Errorf("the recording contains the environment (%v)", err)
	}
}

// TestAFailureIsReported checks that the audit log learns once that decisions are not recorded.
func TestAFailureIsReported(t *testing.T) {
	t.Parallel()
	b := newBand(t, 1<<20, 10, slog.New(slog.DiscardHandler))
	var said []string
	b.recorder.Stopped = func(why string) { said = append(said, why) }
	b.recorder.fail(errors.New("the disk is full"))
	b.recorder.fail(errors.New("the disk is full"))
	if !slices.Equal(said, []string{"the disk is full"}) {
		t.Errorf("the log learns %q", said)
	}
	e := Stopped(said[0])
	if why, ok := ReadStopped(&e); !ok || why != "the disk is full" {
		t.Errorf("%+v is read as %q, %v", e, why, ok)
	}
}
