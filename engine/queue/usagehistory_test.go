package queue

import (
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestGrowth compares the results of the function `growth` with floating-point powers of two. It also checks that
// growth never decreases with time.
func TestGrowth(t *testing.T) {
	t.Parallel()
	const whole = 86_400_000
	last := uint64(0)
	for part := uint64(0); part < whole; part += 997 {
		got := growth(part, whole)
		want := math.Exp2(float64(part)/whole) * growthUnit
		if math.Abs(float64(got)-want) > 3 {
			t.Fatalf("growth of %d/%d is %d, want %.1f", part, whole, got, want)
		}
		if got < last {
			t.Fatalf("growth falls at %d", part)
		}
		last = got
	}
	rapid.Check(t, func(t *rapid.T) {
		half := rapid.Uint64Range(2, 1<<36).Draw(t, "half")
		at := rapid.Uint64Range(0, half-2).Draw(t, "at")
		if growth(at, half) > growth(at+1, half) {
			t.Fatalf("growth falls after %d of %d", at, half)
		}
		if first := growth(0, half); first != growthUnit {
			t.Fatalf("growth begins at %d", first)
		}
		if last := growth(half-1, half); last >= 2*growthUnit {
			t.Fatalf("growth ends at %d", last)
		}
	})
}

// TestInt128 compares the results of int128 with those of big integers.
func TestInt128(t *testing.T) {
	t.Parallel()
	bigOf := func(w int128) *big.Int {
		x := new(big.Int).SetUint64(w.hi)
		x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(w.lo))
		if w.isNegative() {
			x.Sub(x, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return x
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		c, d := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "c"), rapid.Uint64().Draw(t, "d")
		n := rapid.UintRange(0, 63).Draw(t, "n")
		x, y := multiply(a, b), multiply(c, d)
		wantX := new(big.Int).Mul(big.NewInt(a), new(big.Int).SetUint64(b))
		wantY := new(big.Int).Mul(big.NewInt(c), new(big.Int).SetUint64(d))
		if bigOf(x).Cmp(wantX) != 0 || bigOf(x.plus(y)).Cmp(new(big.Int).Add(wantX, wantY)) != 0 ||
			bigOf(x.minus(y)).Cmp(new(big.Int).Sub(wantX, wantY)) != 0 ||
			bigOf(x.shiftRight(n)).Cmp(new(big.Int).Rsh(wantX, n)) != 0 {
			t.Fatalf("%d*%d, %d*%d, shift %d", a, b, c, d, n)
		}
		if d == 0 {
			return
		}
		want := new(big.Int).Div(wantX, new(big.Int).SetUint64(d))
		switch {
		case want.Sign() < 0:
			want.SetInt64(0)
		case !want.IsInt64():
			want.SetInt64(math.MaxInt64)
		}
		if x.divFloor(d) != want.Int64() {
			t.Fatalf("%v over %d is %d, want %v", wantX, d, x.divFloor(d), want)
		}
	})
}

const day = 24 * time.Hour

// TestPastUse checks past usage for cases that can be computed by hand.
func TestPastUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(l *LeafQueue[int])
		at   time.Duration
		want int64
	}{
		{"for ever", func(l *LeafQueue[int]) { l.AddRunning(Resources{GPU: 1_000_000}, dawn.Add(-100*day), 1) }, 0, 999_984}, // minus usage older than 16 half-lives
		{"for one half-life", func(l *LeafQueue[int]) { l.AddRunning(Resources{GPU: 1_000_000}, dawn.Add(-day), 1) }, 0, 500_000},
		{"half a half-life", func(l *LeafQueue[int]) { l.AddRunning(Resources{GPU: 1_000_000}, dawn.Add(-day/2), 1) }, 0, 292_893},
		{"ended now", func(l *LeafQueue[int]) { l.AddEnded(Resources{GPU: 1_000_000}, dawn.Add(-day), dawn, 1) }, 0, 500_000},
		{"ended a half-life ago", func(l *LeafQueue[int]) { l.AddEnded(Resources{GPU: 1_000_000}, dawn.Add(-day), dawn, 1) }, day, 250_000},
		{"ended in the epoch", func(l *LeafQueue[int]) { l.AddEnded(Resources{GPU: 1_000_000}, dawn, dawn.Add(day/4), 1) }, day / 2, 133_790},
		{"long ago", func(l *LeafQueue[int]) { l.AddEnded(Resources{GPU: 1_000_000}, dawn.Add(-day), dawn, 1) }, 17 * day, 0},
		{"backwards", func(l *LeafQueue[int]) { l.AddEnded(Resources{GPU: 1_000_000}, dawn, dawn.Add(-day), 1) }, 0, 0},
		{"archived", func(l *LeafQueue[int]) { l.SetArchived(ares.Usage{At: dawn, GPUMilliSecs: 1_000_000 * 86_400}) }, 0, 693_147},
		{"archived a half-life ago", func(l *LeafQueue[int]) { l.SetArchived(ares.Usage{At: dawn, GPUMilliSecs: 1_000_000 * 86_400}) }, day, 346_573},
	} {
		tree := New[int](Config{HalfLife: day})
		l := tree.Leaf("a", "")
		tree.rebuild()
		c.do(l)
		for n := l.node; n != nil; n = n.parent {
			if got := n.history.averageAt(tree.cfg.momentOf(dawn.Add(c.at))).GPU; got < c.want-1 || got > c.want+1 {
				t.Errorf("%s: past use %d, want %d", c.name, got, c.want)
			}
		}
	}
}

// usagePeriod is the usage of a queue from one time to another.
type usagePeriod struct {
	queue      string
	use        Resources
	start, end time.Time
}

// TestPathIndependence adds the same usage to two trees. The first tree gets it as it happens, with reads and record
// changes in between. The second tree gets it all at once and in another order. Both trees must report exactly the
// same past usage.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{HalfLife: rapid.SampledFrom([]time.Duration{time.Minute, 50 * time.Minute, day}).Draw(t, "half")}
		live, loaded := New[int](cfg), New[int](cfg)
		now := dawn.Add(time.Duration(rapid.Int64Range(0, int64(40*cfg.HalfLife)).Draw(t, "now")))
		var stays []usagePeriod
		for range rapid.IntRange(0, 12).Draw(t, "stays") {
			s := usagePeriod{
				queue: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "queue"),
				use:   Resources{rapid.Int64Range(0, 1<<30).Draw(t, "gpu"), rapid.Int64Range(0, 1<<20).Draw(t, "cpu"), rapid.Int64Range(0, 1<<40).Draw(t, "mb")},
			}
			s.start = dawn.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(dawn))).Draw(t, "start")))
			s.end = s.start.Add(time.Duration(rapid.Int64Range(0, int64(30*cfg.HalfLife)).Draw(t, "took")))
			stays = append(stays, s)
			l := live.Leaf("a", s.queue)
			l.AddRunning(s.use, s.start, 1)
			if rapid.Bool().Draw(t, "look") {
				live.Shares(s.start)
			}
			if !s.end.After(now) {
				l.AddRunning(s.use, s.start, -1)
				l.AddEnded(s.use, s.start, s.end, 1)
			}
			if rapid.Bool().Draw(t, "removed") && !s.end.After(now) {
				l.AddEnded(s.use, s.start, s.end, -1)
				stays = stays[:len(stays)-1]
			}
			if rapid.Bool().Draw(t, "moved") {
				live.SetQueue(&ares.Queue{Tenant: "a", Name: "y", Parent: rapid.SampledFrom([]string{"", "x", "z"}).Draw(t, "parent")})
			}
		}
		live.SetQueue(&ares.Queue{Tenant: "a", Name: "y", Parent: "x"})
		loaded.SetQueue(&ares.Queue{Tenant: "a", Name: "y", Parent: "x"})
		for _, name := range []string{"x", "y", "z"} {
			live.Leaf("a", name)
			loaded.Leaf("a", name)
		}
		for _, s := range slices.Backward(stays) {
			if s.end.After(now) {
				loaded.Leaf("a", s.queue).AddRunning(s.use, s.start, 1)
			} else {
				loaded.Leaf("a", s.queue).AddEnded(s.use, s.start, s.end, 1)
			}
		}
		if a, b := live.Shares(now), loaded.Shares(now); !reflect.DeepEqual(a, b) {
			t.Fatalf("seen:   %+v\nloaded: %+v", a, b)
		}
	})
}

// TestRunningEqualsEnded checks that a running attempt counts as much as an attempt that ends now.
func TestRunningEqualsEnded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{HalfLife: time.Hour}
		use := Resources{rapid.Int64Range(0, 1<<40).Draw(t, "gpu"), 3, rapid.Int64Range(0, 1<<40).Draw(t, "mb")}
		start := dawn.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "start")))
		end := start.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "long")))
		var a, b usageHistory
		a.addRunning(use, cfg.momentOf(start), 1)
		b.addEnded(use, cfg.momentOf(start), cfg.momentOf(end), 1)
		if a.averageAt(cfg.momentOf(end)) != b.averageAt(cfg.momentOf(end)) {
			t.Fatalf("running %v, ended %v", a.averageAt(cfg.momentOf(end)), b.averageAt(cfg.momentOf(end)))
		}
		a.addRunning(use, cfg.momentOf(start), -1)
		b.addEnded(use, cfg.momentOf(start), cfg.momentOf(end), -1)
		if len(a.running)+len(a.ended)+len(b.running)+len(b.ended) != 0 {
			t.Fatalf("something is left: %+v %+v", a, b)
		}
	})
}

// TestArchiveUse archives jobs one by one, and compares the archived record with the usage of the attempts
// themselves.
func TestArchiveUse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{HalfLife: rapid.SampledFrom([]time.Duration{time.Hour, day}).Draw(t, "half")}
		var u ares.Usage
		var p usageHistory
		at := dawn
		for range rapid.IntRange(1, 20).Draw(t, "jobs") {
			use := Resources{rapid.Int64Range(1000, 1<<20).Draw(t, "gpu"), rapid.Int64Range(10, 1000).Draw(t, "cpu"), rapid.Int64Range(1<<20, 1<<24).Draw(t, "mb")}
			start := at.Add(-time.Duration(rapid.Int64Range(0, int64(cfg.HalfLife)).Draw(t, "before")))
			end := start.Add(time.Duration(rapid.Int64Range(int64(time.Minute), int64(cfg.HalfLife)).Draw(t, "long")))
			at = end.Add(time.Duration(rapid.Int64Range(0, int64(cfg.HalfLife)/4).Draw(t, "kept")))
			u = ArchiveUse(u, []AttemptUse{{Resources: use, GPUMilli: use.GPU, Start: start, End: end}}, cfg.HalfLife, at)
			p.addEnded(use, cfg.momentOf(start), cfg.momentOf(end), 1)
		}
		tree := New[int](cfg)
		tree.Leaf("a", "").SetArchived(u)
		want := p.averageAt(cfg.momentOf(u.At)).vector()
		for r, got := range tree.Leaf("a", "").node.history.averageAt(cfg.momentOf(u.At)).vector() {
			if diff := got - want[r]; diff > want[r]/1000+1+u.GPUMilliSecs/1_000_000_000 || diff < -want[r]/1000-1 {
				t.Fatalf("resource %d: archived %d, the runs themselves %d", r, got, want[r])
			}
		}
	})
}

// TestArchiveUseByMonth checks that usage for the budget is counted by month.
func TestArchiveUseByMonth(t *testing.T) {
	t.Parallel()
	may := time.Date(2026, 5, 31, 23, 0, 0, 0, time.UTC)
	u := ArchiveUse(ares.Usage{}, []AttemptUse{{GPUMilli: 2500, Start: may.Add(-time.Hour), End: may}}, day, may)
	if u.Month != "2026-05" || u.GPUSecs != 9000 {
		t.Errorf("in May: %s %d, want 9000", u.Month, u.GPUSecs)
	}
	june := may.Add(2 * time.Hour)
	u = ArchiveUse(u, []AttemptUse{{GPUMilli: 1000, Start: may, End: june}}, day, june)
	if u.Month != "2026-06" || u.GPUSecs != 3600 {
		t.Errorf("in June: %s %d, want 3600", u.Month, u.GPUSecs)
	}
	u = ArchiveUse(u, []AttemptUse{{GPUMilli: 1000, Start: june.Add(-time.Minute), End: june}}, 0, may) // an earlier time is treated as that of the record
	if u.Month != "2026-06" || u.GPUSecs != 3660 || !u.At.Equal(june) || u.GPUMilliSecs != 0 {
		t.Errorf("later: %+v", u)
	}
}
