package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/ares-scheduler/ares/apipb"
)

var logEpoch = time.Unix(1_800_000_000, 0)

func logTimeAt(ms int) *timestamppb.Timestamp {
	return timestamppb.New(logEpoch.Add(time.Duration(ms) * time.Millisecond))
}

func logLineAt(ms int, text string) *apipb.LogLine {
	line := &apipb.LogLine{Data: []byte(text)}
	if ms >= 0 {
		line.Time = logTimeAt(ms)
	}
	return line
}

// mergeEvents merges the events of ranks. Each rank waits until its lines were sent, as a rankReader does.
func mergeEvents(t interface {
	Helper()
	Fatal(...any)
}, follow bool, ranks [][]rankEvent) (lines []*apipb.LogLine, notices []*apipb.LogNotice) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	m, events := newLogMerge(follow), make(chan rankEvent)
	for rank, all := range ranks {
		taken := make(chan struct{}, 1)
		m.add(rank, taken)
		wg.Go(func() {
			for _, e := range append(all, rankEvent{ended: true}) {
				e.rank = rank
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
				if len(e.part.Lines) > 0 {
					select {
					case <-taken:
					case <-ctx.Done():
						return
					}
				}
			}
		})
	}
	if err := m.run(ctx, events, func(out *apipb.StreamLogsResponse) error {
		lines, notices = append(lines, out.Lines...), append(notices, out.Notices...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines, notices
}

// TestMergeLogs checks that the lines of ranks whose times do not decrease come in the order of time, each line once, and that the order
// within a rank is kept even if times are missing or wrong.
func TestMergeLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sorted := rapid.Bool().Draw(t, "sorted")
		ranks := make([][]rankEvent, rapid.IntRange(1, 8).Draw(t, "ranks"))
		want := 0
		for rank := range ranks {
			at, number := 0, 0
			for range rapid.IntRange(0, 6).Draw(t, "parts") {
				var e rankEvent
				for range rapid.IntRange(0, 5).Draw(t, "lines") {
					if at += rapid.IntRange(0, 50).Draw(t, "later"); !sorted {
						at = rapid.IntRange(-1, 500).Draw(t, "at")
					}
					e.part.Lines = append(e.part.Lines, logLineAt(at, fmt.Sprint(number)))
					number++
				}
				if e.part.Lines == nil {
					e.part.CompleteUntil = logTimeAt(max(at, 0))
				}
				ranks[rank] = append(ranks[rank], e)
			}
			want += number
		}
		lines, _ := mergeEvents(t, rapid.Bool().Draw(t, "follow"), ranks)
		next := make([]int, len(ranks))
		last := time.Time{}
		for _, line := range lines {
			if string(line.Data) != fmt.Sprint(next[line.Rank]) {
				t.Fatalf("line %s of rank %d comes instead of line %d", line.Data, line.Rank, next[line.Rank])
			}
			next[line.Rank]++
			if now := line.Time.AsTime(); sorted {
				if now.Before(last) {
					t.Fatalf("line %s of rank %d is earlier than the line before", line.Data, line.Rank)
				}
				last = now
			}
		}
		if len(lines) != want {
			t.Fatalf("%d lines, want %d", len(lines), want)
		}
	})
}

// TestMergeLogsWithoutARank checks that the other ranks are sent while a rank is absent, that the reader is told once, and that a rank
// from which nothing is heard is not waited for.
func TestMergeLogsWithoutARank(t *testing.T) {
	part := func(ms int, text string) rankEvent {
		return rankEvent{part: LogPart{Lines: []*apipb.LogLine{logLineAt(ms, text)}}}
	}
	lines, notices := mergeEvents(t, true, [][]rankEvent{
		{part(1, "a"), part(5, "b"), part(9, "c")},
		{{absent: true, notice: "node n2 is not connected"}, {absent: true, notice: "node n2 is not connected"}, part(0, "late")},
		{{ended: true, notice: "this node no longer keeps its log"}},
	})
	if len(lines) != 4 || len(notices) != 2 {
		t.Fatalf("lines %v, notices %v", lines, notices)
	}
	for _, n := range notices {
		if n.Missing != (n.Rank == 2) {
			t.Errorf("notice %v", n)
		}
	}

	m, events := newLogMerge(true), make(chan rankEvent)
	taken := make(chan struct{}, 1)
	m.add(0, taken)
	m.add(1, nil) // never says anything
	ended := errors.New("ended")
	done := make(chan error, 1)
	go func() {
		done <- m.run(t.Context(), events, func(out *apipb.StreamLogsResponse) error {
			if len(out.Lines) == 1 {
				return ended
			}
			return nil
		})
	}()
	events <- part(rand.IntN(100), "a")
	if err := <-done; !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}
