package ares_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestJobIDsNeverChange compares computed job IDs with fixed ones. If a request is repeated years later, another version of Ares
// must find the same job. Never edit the expected IDs.
func TestJobIDsNeverChange(t *testing.T) {
	for _, c := range []struct {
		tenant, request string
		want            ares.JobID
	}{
		{"default", "train-1", "job-li7n6bynhy37ncbyooa5et3g"},
		{"", "", "job-g5dqr77xogo5lf46zb25k3gs"},
		{"ml", "ünï", "job-4gvnhzvu6ddp2hksj4xnz52r"},
	} {
		if got := ares.NewJobID(c.tenant, c.request); got != c.want {
			t.Errorf("NewJobID(%q, %q) = %s, want %s", c.tenant, c.request, got, c.want)
		}
	}
	if ares.NewJobID("a", "bc") == ares.NewJobID("ab", "c") {
		t.Error("the parts of an ID are not told apart")
	}
}

func TestValidJobID(t *testing.T) {
	for s, want := range map[string]bool{
		string(ares.NewJobID("a", "b")): true,
		"job-aaaaaaaaaaaaaaaaaaaaaaaa":  true,
		"job-222222222222222222222227":  true,
		"job-aaaaaaaaaaaaaaaaaaaaaaa":   false, // short
		"job-aaaaaaaaaaaaaaaaaaaaaaaaa": false, // long
		"job-AAAAAAAAAAAAAAAAAAAAAAAA":  false,
		"job-aaaaaaaaaaaaaaaaaaaaaaa1":  false,
		"job-aaaaaaaaaaaaaaaaaaaaaaa8":  false,
		"job-aaaaaaaaaaaaaaaaaaaaaaa/":  false,
		"job-../../../../../../../..":   false,
		"jab-aaaaaaaaaaaaaaaaaaaaaaaa":  false,
		"":                              false,
	} {
		if ares.ValidJobID(s) != want {
			t.Errorf("ValidJobID(%q) = %t", s, !want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := ares.NewJobID(rapid.String().Draw(t, "tenant"), rapid.String().Draw(t, "request"))
		if !ares.ValidJobID(string(id)) {
			t.Fatalf("%s is not valid", id)
		}
	})
}

func TestDigestOf(t *testing.T) {
	a := ares.Spec{Command: []string{"x"}, RequestID: "1", Tenant: "t"}
	b := ares.Spec{Command: []string{"x"}, RequestID: "2"}
	if ares.DigestOf(a) != ares.DigestOf(b) {
		t.Error("request ID and tenant are part of the digest")
	}
	if b.Args = []string{"y"}; ares.DigestOf(a) == ares.DigestOf(b) {
		t.Error("another command has the same digest")
	}
	if d := ares.DigestOf(a); d[0] != 1 {
		t.Errorf("version %d", d[0])
	}
}

// TestBackoffBounds checks that the delay is min(initial × multiplier^n, max) ± 25 %. The delay must be the same for the same job and
// retry, and must differ between jobs. It must be at most half of the time left until the deadline.
func TestBackoffBounds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		p := ares.RetryPolicy{
			InitialBackoffSeconds: rapid.Float64Range(0.001, 100).Draw(t, "initial"),
			Multiplier:            rapid.Float64Range(1, 100).Draw(t, "multiplier"),
			MaxBackoffSeconds:     rapid.Float64Range(0.001, 86_400).Draw(t, "max"),
		}
		n, id := rapid.IntRange(0, 1000).Draw(t, "n"), ares.JobID(rapid.String().Draw(t, "id"))
		d := ares.Backoff(id, p, n, now, time.Time{})
		want := min(p.InitialBackoffSeconds*math.Pow(p.Multiplier, float64(n)), p.MaxBackoffSeconds)
		if got := d.Seconds(); got < 0.75*want-1e-6 || got > 1.25*want+1e-6 {
			t.Fatalf("backoff %v is not within 25%% of %v", got, want)
		}
		if again := ares.Backoff(id, p, n, now, time.Time{}); again != d {
			t.Fatalf("the same try waits %v and %v", d, again)
		}
		left := time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "left"))
		got, first := ares.Backoff(id, p, n, now, now.Add(left)), time.Duration(p.InitialBackoffSeconds*float64(time.Second))
		switch {
		case left <= 0 && got != d:
			t.Fatalf("backoff %v, and %v with a deadline that is past", d, got)
		case left > 0 && got != min(d, max(left/2, first)):
			t.Fatalf("backoff %v with %v left, %v without a deadline, %v at first", got, left, d, first)
		}
	})
}

func TestBackoffSpreads(t *testing.T) {
	p := ares.RetryPolicy{InitialBackoffSeconds: 1, Multiplier: 2, MaxBackoffSeconds: 300}
	low, high := time.Hour, time.Duration(0)
	for i := range 1000 {
		d := ares.Backoff(ares.NewJobID("t", time.Duration(i).String()), p, 0, time.Time{}, time.Time{})
		low, high = min(low, d), max(high, d)
	}
	if low > 760*time.Millisecond || high < 1240*time.Millisecond {
		t.Errorf("a thousand jobs wait between %v and %v", low, high)
	}
}

func TestPhasesAndClasses(t *testing.T) {
	if p, err := ares.ParsePhase("completed"); p != ares.Succeeded || err != nil {
		t.Errorf("completed = %s, %v", p, err)
	}
	if _, err := ares.ParsePhase("done"); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("done: %v", err)
	}
	for priority, want := range map[int]ares.Class{
		-1: ares.BestEffort, 0: ares.BestEffort, 99: ares.BestEffort, 100: ares.Low, 499: ares.Low, 500: ares.Normal,
		999: ares.Normal, 1000: ares.High, 1999: ares.High, 2000: ares.Critical, ares.MaxPriority: ares.Critical,
	} {
		if got := ares.ClassOf(priority); got != want {
			t.Errorf("priority %d is %s, want %s", priority, got, want)
		}
	}
	for i, c := range ares.Classes() {
		if c.Rank() != i || ares.ClassOf(c.Floor()) != c {
			t.Errorf("class %s: rank %d, floor %d", c, c.Rank(), c.Floor())
		}
	}
}
