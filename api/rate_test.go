package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// The type `counted` is a fake implementation of Shared, which counts the calls to Spend.
type counted struct {
	wait  time.Duration
	known bool
	calls int
}

func (c *counted) Spend(context.Context, string, float64, int) (time.Duration, bool) {
	c.calls++
	return c.wait, c.known
}

// TestRates checks that each caller may send a burst of calls and then a limited number of calls
// per second. The test also checks that a shared count can only reject more calls, and that the
// token buckets of idle callers are removed.
func TestRates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	beside := &counted{}
	shed := 0
	r := pipeline.NewRates(pipeline.Rate{PerSecond: 2, Burst: 3, Shared: beside}, func(class string) {
		if class == "rate" {
			shed++
		}
	})
	r.Now = func() time.Time { return now }
	spend := func(who string) error { return r.Spend(t.Context(), who) }
	for range 3 {
		if err := spend("ann"); err != nil {
			t.Fatal(err)
		}
	}
	err := apipb.FromStatus(spend("ann"))
	if ares.CodeOf(err) != ares.Exhausted || shed != 1 {
		t.Errorf("the fourth at once: %v, %d shed", err, shed)
	}
	if wait := apipb.RetryAfter(r.Spend(t.Context(), "ann")); wait != 500*time.Millisecond {
		t.Errorf("it is to wait %s", wait)
	}
	if err := spend("bob"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	now = now.Add(500 * time.Millisecond)
	if err := spend("ann"); err != nil {
		t.Errorf("half a second later: %v", err)
	}

	// The shared count rejects the call, so the call's token is put back into this server's own bucket.
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

	for i := range 5 * pipeline.LeastBuckets {
		now = now.Add(time.Second)
		if err := spend(fmt.Sprint("caller", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Buckets); n > 2*pipeline.LeastBuckets {
		t.Errorf("%d callers are remembered", n)
	}
}
