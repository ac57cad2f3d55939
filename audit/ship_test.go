package audit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/audit/sinktest"
)

// The type `memory` is a sink that stores entries in memory.
type memory struct {
	mu   sync.Mutex
	held map[string][]audit.Entry
	down error
}

func newMemory(*testing.T) audit.Sink { return &memory{held: map[string][]audit.Entry{}} }

func (m *memory) Reached(_ context.Context, server string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if list := m.held[server]; len(list) > 0 {
		return list[len(list)-1].Sequence, m.down
	}
	return 0, m.down
}

func (m *memory) Take(ctx context.Context, entries []audit.Entry) error {
	at, err := m.Reached(ctx, entries[0].Server)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := entries[:0:0]
	for _, e := range entries {
		if e.Sequence > at {
			fresh = append(fresh, e)
		}
	}
	if at > 0 && len(fresh) > 0 && fresh[0].Sequence != at+1 {
		return ares.Errorf(ares.Conflict, "entry %d does not follow %d", fresh[0].Sequence, at)
	}
	m.held[entries[0].Server] = append(m.held[entries[0].Server], fresh...)
	return nil
}

func (m *memory) of(server string) []audit.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.held[server])
}

func TestMemory(t *testing.T) {
	sinktest.Run(t, newMemory, func(_ *testing.T, s audit.Sink, server string) []audit.Entry { return s.(*memory).of(server) })
}

// TestShipping checks that a sink gets every entry once and in order. This must hold even if the sink was down or
// restored from a backup, or the server was restarted.
func TestShipping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		sink := &memory{held: map[string][]audit.Entry{}}
		for round := range 3 {
			log, err := audit.Open(audit.Config{Dir: dir, Server: "s1", MaxSegment: 3000})
			if err != nil {
				t.Fatal(err)
			}
			shipper := &audit.Shipper{Log: log, Sink: sink}
			ctx, stop := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			wg.Go(func() { _ = log.Run(ctx) })
			wg.Go(func() { _ = shipper.Run(ctx) })
			for i := range 30 {
				if i == 10 {
					sink.set(errors.New("down"))
				}
				if err := log.Record(ctx, audit.Entry{Action: "SUBMIT_JOB", Status: audit.Done}); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
			}
			if round == 1 { // restored from a backup
				sink.mu.Lock()
				sink.held["s1"] = sink.held["s1"][:5]
				sink.mu.Unlock()
			}
			sink.set(nil)
			pass(2 * time.Minute)
			synctest.Wait()
			seq, _ := log.Position()
			if got := sink.of("s1"); uint64(len(got)) != seq || shipper.Reached() != seq {
				t.Errorf("round %d: the sink has %d of %d entries, the shipper believes %d", round, len(got), seq, shipper.Reached())
			}
			stop()
			wg.Wait()
		}
		for i, e := range sink.of("s1") {
			if e.Sequence != uint64(i+1) {
				t.Fatalf("entry %d is the %dth", e.Sequence, i+1)
			}
		}
	})
}

// TestShippingIsLogged checks that the log says when the sink starts to fail, and when it works again.
func TestShippingIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.Open(audit.Config{Dir: t.TempDir(), Server: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		sink := &memory{held: map[string][]audit.Entry{}, down: errors.New("down")}
		var said bytes.Buffer
		shipper := &audit.Shipper{Log: log, Sink: sink, Slog: slog.New(slog.NewTextHandler(&said, nil))}
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = log.Run(ctx) })
		wg.Go(func() { _ = shipper.Run(ctx) })
		pass(5 * time.Minute)
		sink.set(nil)
		pass(5 * time.Minute)
		stop()
		wg.Wait()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "not shipped") || !strings.Contains(lines[0], "error=down") ||
			!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "shipped to history again") {
			t.Errorf("got %q", lines)
		}
	})
}

func (m *memory) set(down error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// The function `pass` lets time pass in a synctest bubble, where that takes no real time.
func pass(d time.Duration) { <-time.After(d) }

// slowSink is a sink that needs time for each step.
type slowSink struct {
	*memory
	busy atomic.Int64 // time spent in Take, in nanoseconds
}

const slowStep = 100 * time.Millisecond

func (s *slowSink) Take(ctx context.Context, entries []audit.Entry) error {
	pass(slowStep) // in the bubble, this takes no real time
	s.busy.Add(int64(slowStep))
	return s.memory.Take(ctx, entries)
}

// TestShippingLeavesTimeToCalls checks that the shipper uses only a part of the time while many entries arrive, and that a query
// does not wait for it.
func TestShippingLeavesTimeToCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.Open(audit.Config{Dir: t.TempDir(), Server: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		sink := &slowSink{memory: &memory{held: map[string][]audit.Entry{}}}
		shipper := &audit.Shipper{Log: log, Sink: sink}
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = log.Run(ctx) })
		wg.Go(func() { _ = shipper.Run(ctx) })
		batch := make([]audit.Entry, 1000)
		for i := range batch {
			batch[i] = audit.Entry{Action: "SUBMIT_JOB", Status: audit.Done}
		}
		began := time.Now()
		for range 20 {
			if err := log.Record(ctx, slices.Clone(batch)...); err != nil {
				t.Fatal(err)
			}
			pass(slowStep)
		}
		if busy, took := time.Duration(sink.busy.Load()), time.Since(began); busy > took/5 {
			t.Errorf("the shipper was busy for %s of %s", busy, took)
		}
		if err := shipper.Ship(ctx); err != nil {
			t.Fatal(err)
		}
		if seq, _ := log.Position(); uint64(len(sink.of("s1"))) != seq {
			t.Errorf("after Ship, the sink has %d of %d entries", len(sink.of("s1")), seq)
		}
		stop()
		wg.Wait()
	})
}
