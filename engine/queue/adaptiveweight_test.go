package queue

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// The function `bounded` returns a tenant whose weight adapts to its past usage.
func bounded(id string, weight, least, most float64) *ares.Tenant {
	return &ares.Tenant{ID: id, Weight: weight, WeightMin: least, WeightMax: most, Limits: ares.NoLimits()}
}

// TestWeightsFollowPastUse checks a tenant that used less than its weight entitles it to. The
// weight of this tenant must rise, up to its maximum. A tenant without a minimum and a maximum
// weight must keep its weight.
func TestWeightsFollowPastUse(t *testing.T) {
	t.Parallel()
	now := dawn.Add(30 * 24 * time.Hour)
	for _, c := range []struct {
		name           string
		a, b           *ares.Tenant
		usedA, usedB   int64
		wantA, wantB   int64
		firstIsTenantA bool
	}{
		{"used alike", bounded("a", 1, 0.5, 2), bounded("b", 1, 0.5, 2), 4000, 4000, 1000, 1000, true},
		{"one used three times as much", bounded("a", 1, 0.5, 2), bounded("b", 1, 0.5, 2), 6000, 2000, 666, 2000, false},
		{"as the weights say", bounded("a", 3, 1, 9), bounded("b", 1, 0.5, 2), 5997, 2000, 3000, 1000, true},
		{"the bounds hold", bounded("a", 1, 0.9, 1.1), bounded("b", 1, 0.9, 1.1), 7900, 100, 900, 1100, false},
		{"who used nothing counts for the most", bounded("a", 1, 0.5, 4), bounded("b", 1, 0.5, 4), 8000, 0, 500, 4000, false},
		{"nobody used anything", bounded("a", 2, 1, 4), bounded("b", 1, 1, 4), 0, 0, 2000, 1000, true},
		{"one of them is fixed", bounded("a", 1, 0.5, 2), bounded("b", 1, 0, 0), 6000, 2000, 666, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newTestCluster(DefaultConfig(), Resources{GPU: 8000, CPU: 100, Memory: 1000})
			w.tree.SetTenant("a", c.a)
			w.tree.SetTenant("b", c.b)
			w.tree.Leaf("a", "").AddEnded(Resources{GPU: c.usedA}, dawn, now, 1)
			w.tree.Leaf("b", "").AddEnded(Resources{GPU: c.usedB}, dawn, now, 1)
			w.job("b", "", Resources{GPU: 1}, 500, 1, now)
			w.job("a", "", Resources{GPU: 1}, 500, 2, now)
			got := map[string]int64{}
			for _, s := range w.tree.Shares(now) {
				if s.Queue == "" {
					got[s.Tenant] = s.EffectiveWeight
				}
			}
			if near := func(got, want int64) bool { return got >= want-2 && got <= want+2 }; !near(got["a"], c.wantA) || !near(got["b"], c.wantB) {
				t.Errorf("the weights come to %v, want %d and %d", got, c.wantA, c.wantB)
			}
			p := w.tree.BeginRound(now)
			first, _ := p.Next()
			if isA := first.queue.leaf.Tenant() == "a"; isA != c.firstIsTenantA {
				t.Errorf("the first turn is of tenant %s", first.queue.leaf.Tenant())
			}
			p.End()
		})
	}
}

// TestAdjustWeight compares the adjustment with exact arithmetic.
func TestAdjustWeight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Int64Range(1, ares.MaxWeight*1000).Draw(t, "weight")
		least := rapid.Int64Range(1, weight).Draw(t, "least")
		most := rapid.Int64Range(weight, ares.MaxWeight*1000).Draw(t, "most")
		all := Resources{GPU: rapid.Int64Range(1, 1<<40).Draw(t, "capacity")}
		was := Resources{GPU: rapid.Int64Range(0, all.GPU).Draw(t, "was")}
		mine, _ := dominantShare(was, all)
		mine >>= pastShareShift
		d := weightAdjustment{
			enabled: true, totalWeight: uint64(weight) + rapid.Uint64Range(0, 1<<40).Draw(t, "others"),
			totalPast: mine + rapid.Uint64Range(0, 1<<45).Draw(t, "past"),
		}
		got := d.adjust(weight, least, most, was, all)
		want := big.NewInt(most)
		switch {
		case d.totalPast == 0:
			want.SetInt64(weight)
		case mine > 0:
			want.Mul(big.NewInt(weight), big.NewInt(weight))
			want.Mul(want, new(big.Int).SetUint64(d.totalPast))
			want.Div(want, new(big.Int).SetUint64(mine))
			want.Div(want, new(big.Int).SetUint64(d.totalWeight))
			if want.Cmp(big.NewInt(least)) < 0 {
				want.SetInt64(least)
			}
			if want.Cmp(big.NewInt(most)) > 0 {
				want.SetInt64(most)
			}
		}
		if fmt.Sprint(got) != want.String() {
			t.Fatalf("got %d, want %s", got, want)
		}
	})
}
