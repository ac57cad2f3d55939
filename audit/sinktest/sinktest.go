// Package sinktest is the test suite for every implementation of audit.Sink.
package sinktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/audit"
)

// A Kept is a function that returns the entries that a sink stores for a server, in order.
type Kept func(t *testing.T, sink audit.Sink, server string) []audit.Entry

// Run tests the sinks that `open` returns. Each of these sinks must be empty.
func Run(t *testing.T, open func(*testing.T) audit.Sink, kept Kept) {
	t.Helper()
	for name, law := range map[string]func(*testing.T, audit.Sink, Kept){
		"EntriesComeBackWhole":  entriesComeBackWhole,
		"TakenTwiceIsThereOnce": takenTwiceIsThereOnce,
		"ServersAreApart":       serversAreApart,
		"AGapIsRefused":         aGapIsRefused,
	} {
		t.Run(name, func(t *testing.T) { law(t, open(t), kept) })
	}
}

// The function `entries` returns some entries of a server's log.
func entries(server string, from, to int) []audit.Entry {
	var out []audit.Entry
	for i := from; i <= to; i++ {
		out = append(out, audit.Entry{
			Sequence: uint64(i), Time: time.Date(2026, 1, 2, 3, 4, i, 123_456_000, time.UTC), Server: server, Cluster: "c", Action: "SUBMIT_JOB",
			User: "token:ü", Tenant: "red", Object: fmt.Sprint("job-", i), Source: "[::1]:9", Door: "grpc", Request: "r", Before: "b", After: "a",
			Status: audit.Refused, Code: "forbidden", RequestID: "id", Detail: "it's \"so\"", Count: i, Since: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC),
			Previous: fmt.Sprint("hash", i-1), Hash: fmt.Sprint("hash", i),
		})
	}
	return out
}

func take(t *testing.T, s audit.Sink, list []audit.Entry) {
	t.Helper()
	if err := s.Take(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

func reached(t *testing.T, s audit.Sink, server string, want uint64) {
	t.Helper()
	if got, err := s.Reached(t.Context(), server); err != nil || got != want {
		t.Errorf("%s is there up to %d, %v, want %d", server, got, err, want)
	}
}

func entriesComeBackWhole(t *testing.T, s audit.Sink, kept Kept) {
	reached(t, s, "s1", 0)
	want := entries("s1", 1, 5)
	want[2].Since, want[2].Count, want[2].Detail = time.Time{}, 0, ""
	take(t, s, want)
	reached(t, s, "s1", 5)
	got := kept(t, s, "s1")
	if len(got) != len(want) {
		t.Fatalf("%d entries came back of %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d came back as %+v, want %+v", i, got[i], want[i])
		}
	}
}

func takenTwiceIsThereOnce(t *testing.T, s audit.Sink, kept Kept) {
	take(t, s, entries("s1", 1, 4))
	take(t, s, entries("s1", 1, 4))
	take(t, s, entries("s1", 3, 8))
	reached(t, s, "s1", 8)
	got := kept(t, s, "s1")
	if len(got) != 8 {
		t.Errorf("%d entries, want 8", len(got))
	}
	for i := range got {
		if got[i].Sequence != uint64(i+1) {
			t.Errorf("entry %d is the %dth", got[i].Sequence, i+1)
		}
	}
}

func serversAreApart(t *testing.T, s audit.Sink, kept Kept) {
	take(t, s, entries("s1", 1, 3))
	take(t, s, entries("s2", 1, 5))
	reached(t, s, "s1", 3)
	reached(t, s, "s2", 5)
	if n := len(kept(t, s, "s1")); n != 3 {
		t.Errorf("%d entries of s1, want 3", n)
	}
}

// aGapIsRefused checks that the sink rejects entries after a gap. Otherwise the sink's copy would look complete
// although it is not.
func aGapIsRefused(t *testing.T, s audit.Sink, kept Kept) {
	take(t, s, entries("s1", 11, 12)) // the earlier entries were removed because of their age
	if err := s.Take(t.Context(), entries("s1", 14, 15)); err == nil {
		t.Error("entry 14 was taken after 12")
	}
	reached(t, s, "s1", 12)
	if n := len(kept(t, s, "s1")); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}
