package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// counted is a Shared of the test's own.
type counted struct {
	wait  time.Duration
	known bool
	calls int
}

func (c *counted) Spend(context.Context, string, float64, int) (time.Duration, bool) {
	c.calls++
	return c.wait, c.known
}

// TestRates: each caller has so many at once and so many a second after; what others
// share can only be stricter; and callers that rest are forgotten.
func TestRates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	beside := &counted{}
	shed := 0
	r := newRates(Rate{PerSecond: 2, Burst: 3, Shared: beside}, func(class string) {
		if class == "rate" {
			shed++
		}
	})
	r.now = func() time.Time { return now }
	spend := func(who string) error { return r.spend(t.Context(), who) }
	for range 3 {
		if err := spend("ann"); err != nil {
			t.Fatal(err)
		}
	}
	err := apipb.FromStatus(spend("ann"))
	if ares.CodeOf(err) != ares.Exhausted || shed != 1 {
		t.Errorf("the fourth at once: %v, %d shed", err, shed)
	}
	if wait := apipb.RetryAfter(r.spend(t.Context(), "ann")); wait != 500*time.Millisecond {
		t.Errorf("it is to wait %s", wait)
	}
	if err := spend("bob"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	now = now.Add(500 * time.Millisecond)
	if err := spend("ann"); err != nil {
		t.Errorf("half a second later: %v", err)
	}

	// The shared count says one too many: the own place is given back.
	now = now.Add(time.Hour)
	beside.wait, beside.known = time.Second, true
	for range 10 {
		if ares.CodeOf(apipb.FromStatus(spend("ann"))) != ares.Exhausted {
			t.Fatal("let through against the shared count")
		}
	}
	beside.known = false
	for range 3 {
		if err := spend("ann"); err != nil {
			t.Errorf("when the shared count is not known: %v", err)
		}
	}
	if spend("ann") == nil {
		t.Error("without the shared count the own one does not hold")
	}

	for i := range 5 * leastBuckets {
		now = now.Add(time.Second)
		if err := spend(fmt.Sprint("caller", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.buckets); n > 2*leastBuckets {
		t.Errorf("%d callers are remembered", n)
	}
}
