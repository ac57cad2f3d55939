package health

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// TestAFlappingLinkIsHeldBack loses a connection every ten seconds for ten minutes. Offers stop at the third loss, and start
// again when fewer than 1,000 points are left.
func TestAFlappingLinkIsHeldBack(t *testing.T) {
	var d Damping
	waves := 0
	now := noon
	for ; now.Before(noon.Add(10 * time.Minute)); now = now.Add(10 * time.Second) {
		if !d.HoldsAt(now) {
			waves++
		}
		d = d.Lost(now)
	}
	if waves != 3 {
		t.Errorf("%d waves of offers", waves)
	}
	free := d.Until()
	if !d.HoldsAt(free.Add(-time.Second)) || d.HoldsAt(free.Add(time.Second)) || d.PointsAt(free) > ReleaseBelow {
		t.Errorf("held until %s with %v points then", free, d.PointsAt(free))
	}
}

func TestARareLossIsNotHeldBack(t *testing.T) {
	var d Damping
	for i := range 100 {
		if d = d.Lost(noon.Add(time.Duration(i) * HalfLife)); d.Held {
			t.Fatalf("held after %d losses, with %v points", i+1, d.Points)
		}
	}
	if d.Points < 1990 || d.Points > 2000 { // 1,000 · (1 + ½ + ¼ + …)
		t.Errorf("%v points", d.Points)
	}
	if (Damping{}).HoldsAt(noon) || !(Damping{}).Until().IsZero() {
		t.Error("a cluster that was never lost is held back")
	}
}

func TestPointsHalve(t *testing.T) {
	d := Damping{}.Lost(noon)
	if got := d.PointsAt(noon.Add(HalfLife)); got < 499.9 || got > 500.1 {
		t.Errorf("%v points after a half-life", got)
	}
	if got := d.PointsAt(noon.Add(-time.Hour)); got != FlapPoints {
		t.Errorf("%v points when the clock was set back", got)
	}
}

// TestHoldingStays checks the laws for any times of losses: offers are held once the points exceed the upper bound, and not
// released before they are below the lower one.
func TestHoldingStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, now, held := Damping{}, noon, false
		for _, wait := range rapid.SliceOfN(rapid.Int64Range(0, int64(30*time.Minute)), 1, 40).Draw(t, "waits") {
			now = now.Add(time.Duration(wait))
			points := d.PointsAt(now)
			if held = held && points >= ReleaseBelow; d.HoldsAt(now) != held {
				t.Fatalf("%v points, held %v, want %v", points, !held, held)
			}
			d = d.Lost(now)
			if held = held || d.Points > HoldAbove; d.Held != held || d.Points < FlapPoints {
				t.Fatalf("%v points, held %v, want %v", d.Points, d.Held, held)
			}
			if until := d.Until(); held && (d.HoldsAt(until.Add(time.Millisecond)) || !d.HoldsAt(until.Add(-time.Millisecond))) {
				t.Fatalf("%v points are not released at %s", d.Points, until)
			}
		}
	})
}
