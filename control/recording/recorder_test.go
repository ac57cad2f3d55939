package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/store/storetest"
)

// recordedState is an engine state with a recorder. Jobs arrive and end in this state as in a loop.
type recordedState struct {
	recorder *DecisionRecorder
	state    *engine.State
	now      time.Time
	random   *rand.Rand
	jobs     int
	live     []ares.JobID
}

func newBand(t testing.TB, bytes int64, files int, log *slog.Logger) *recordedState {
	t.Helper()
	b := &recordedState{state: engine.New(), now: storetest.Noon, random: rand.New(rand.NewPCG(1, 2))}
	b.recorder = NewDecisionRecorder(t.TempDir(), bytes, files, log, func() Header {
		return NewHeader("a server", "a build", b.state.Config(), time.Now())
	})
	events := []ares.Event{{Tenant: &ares.Tenant{ID: "t", Limits: ares.NoLimits(), Weight: 1}}}
	for i := range 4 {
		n := &ares.Node{ID: fmt.Sprint("n", i), CPUs: 64, MemoryMB: 1 << 16}
		for k := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(n.ID, "/", k), Index: k, Type: "gpu", Healthy: true})
		}
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i"}})
	}
	b.apply(true, events...)
	return b
}

// The method `apply` handles a batch as the loop does.
func (b *recordedState) apply(reset bool, events ...ares.Event) {
	b.now = b.now.Add(time.Duration(1 + b.random.IntN(1_000_000_000)))
	batch := ares.Batch{Revision: b.state.Revision() + 1, Reset: reset, Events: events, At: b.now}
	for i := range events {
		events[i].Revision = batch.Revision
		if events[i].Job != nil {
			events[i].Job.Revision = batch.Revision
		}
		if events[i].Run != nil {
			events[i].Run.Run.Revision = batch.Revision
		}
	}
	b.state.Apply(batch)
	b.recorder.RecordBatch(b.state, batch)
}

// The method `step` adds or ends a job, makes a decision, and applies the plan.
func (b *recordedState) step(t testing.TB) {
	t.Helper()
	if len(b.live) > 3 && b.random.IntN(2) == 0 {
		i := b.random.IntN(len(b.live))
		b.apply(false, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(b.live[i])}})
		b.live = slices.Delete(b.live, i, i+1)
	} else {
		spec := ares.Spec{Tenant: "t", GPUs: 1 + b.random.IntN(8), Members: 1 + b.random.IntN(2), Priority: new(b.random.IntN(3000))}
		job := &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("t", fmt.Sprint(b.jobs)), AcceptedAt: b.now.Truncate(time.Microsecond)}
		b.jobs++
		b.live = append(b.live, job.ID)
		b.apply(false, ares.Event{Job: job})
	}
	plan := engine.Decide(b.state, b.now)
	b.recorder.RecordPlan(plan)
	var events []ares.Event
	for i := range plan.Place {
		run, _ := b.state.Run(plan.Place[i].Job)
		if err := plan.Place[i].Apply(&run, b.now.Truncate(time.Microsecond)); err != nil {
			t.Fatal(err)
		}
		run.Last().Fence = ares.Fence(b.state.Revision() + 1)
		events = append(events, ares.Event{Run: &ares.RunEvent{Job: plan.Place[i].Job, Run: run}})
	}
	b.apply(false, events...)
}

// The function `replayed` replays a recording file and returns the reason why the file ends.
func replayed(t *testing.T, file string) (decisions int, first, last int64, end string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := engine.NewWith(in.Header.Config)
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			return decisions, first, s.Revision(), in.End
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Batch != nil {
			s.Apply(*f.Batch)
			if first == 0 {
				first = f.Batch.Revision
			}
			continue
		}
		decisions++
		plan := engine.Decide(s, f.Decision.Now)
		if plan.Digest() != f.Decision.Digest || s.Revision() != f.Decision.Revision {
			t.Errorf("%s: recorded %s, decided again at %d: %s", filepath.Base(file), f.Decision, s.Revision(), DecisionOf(&plan))
		}
	}
}

func recordings(t *testing.T, recorder *DecisionRecorder) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recorder.Dir, "*"+Suffix))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// TestRecordingReplays records several files, each starting with a snapshot. A replay must make the same decisions, and
// no revision may be missing between the files.
func TestRecordingReplays(t *testing.T) {
	t.Parallel()
	b := newBand(t, 10_000, 1000, slog.New(slog.DiscardHandler))
	stop := start(t, b.recorder)
	const steps = 2000
	for range steps {
		b.step(t)
		for len(b.recorder.queue) > 0 { // so that new files begin
			runtime.Gosched()
		}
	}
	stop()
	files, total, before := recordings(t, b.recorder), 0, int64(0)
	for i, file := range files {
		decisions, first, last, end := replayed(t, file)
		total += decisions
		if first != before+1 {
			t.Errorf("file %d begins at revision %d, the one before ends at %d", i+1, first, before)
		}
		before = last
		if want := map[bool]string{true: EndClosed, false: EndContinued}[i == len(files)-1]; end != want {
			t.Errorf("file %d ends because %q, want %q", i+1, end, want)
		}
	}
	if len(files) < 3 || total != steps || before != b.state.Revision() {
		t.Errorf("%d files have %d of %d decisions up to revision %d of %d", len(files), total, steps, before, b.state.Revision())
	}
}

// TestOldRecordingsAreRemoved checks that only the newest files are kept.
func TestOldRecordingsAreRemoved(t *testing.T) {
	t.Parallel()
	b := newBand(t, 1<<30, 2, slog.New(slog.DiscardHandler))
	for range 4 {
		b.recorder.turn.Store(true)
		b.step(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.recorder.Run(ctx); err != nil {
		t.Fatal(err)
	}
	files := recordings(t, b.recorder)
	if len(files) != 2 || !strings.Contains(files[1], "-0005") {
		t.Errorf("there are %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read %v, %v", info.Mode(), err)
	}
}

// TestSlowDisk checks that a slow disk does not delay the loop. If the disk is too slow, a part of
// the recording is missing. The log and the recording file report this gap, and a new file begins.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	b := newBand(t, 1<<30, 10, slog.New(slog.NewTextHandler(&said, nil)))
	for range maxQueued { // each iteration queues three items
		b.step(t)
	}
	stop := start(t, b.recorder)
	for !b.recorder.turn.Load() {
		runtime.Gosched()
	}
	for range 20 {
		b.step(t)
	}
	stop()
	files := recordings(t, b.recorder)
	if len(files) != 2 || !strings.Contains(said.String(), "too slow") {
		t.Fatalf("files %v; said %s", files, &said)
	}
	if n, _, _, end := replayed(t, files[0]); n < maxQueued/4 || end != EndBehind {
		t.Errorf("the first file has %d decisions and ends because %q", n, end)
	}
	if n, _, last, end := replayed(t, files[1]); n != 20 || end != EndClosed || last != b.state.Revision() {
		t.Errorf("the second file has %d decisions up to %d and ends because %q", n, last, end)
	}
}

// TestFailedDiskDoesNotStopTheLoop checks that the loop continues if no file can be written.
func TestFailedDiskDoesNotStopTheLoop(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	b := newBand(t, 1, 2, slog.New(slog.NewTextHandler(&said, nil)))
	b.recorder.Dir = filepath.Join(b.recorder.Dir, "a file")
	if err := os.WriteFile(b.recorder.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ticks := make(chan time.Time)
	b.recorder.ticks = ticks
	stop := start(t, b.recorder)
	for b.recorder.Problem() == "" {
		runtime.Gosched()
	}
	for range 10 {
		b.step(t)
	}
	// The disk works again: the next try begins a new file, and the problem is over.
	if err := os.Remove(b.recorder.Dir); err != nil {
		t.Fatal(err)
	}
	for range retryAfter {
		ticks <- time.Time{}
	}
	for b.recorder.failed.Load() {
		runtime.Gosched()
	}
	for range 5 {
		b.step(t)
	}
	stop()
	if !strings.Contains(said.String(), "scheduling goes on") || b.recorder.Problem() != "" {
		t.Errorf("it said %q; the problem is %q", &said, b.recorder.Problem())
	}
	decisions := 0
	for _, file := range recordings(t, b.recorder) {
		n, _, _, _ := replayed(t, file)
		decisions += n
	}
	if decisions < 4 {
		t.Errorf("%d decisions were recorded after the failure", decisions)
	}
}

// The function `start` runs the recorder until the function `stop` is called or the test ends.
func start(t *testing.T, r *DecisionRecorder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}
