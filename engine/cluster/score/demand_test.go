package score

import (
	"testing"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// TestDemandHorizon checks the horizon for a constant number of jobs: it never moves back, it is never far behind the
// revision, and it moves rarely.
func TestDemandHorizon(t *testing.T) {
	for _, jobs := range []int{0, 1, 63, 65, 1000, 5000} {
		span, moves, last := int64(64), 0, int64(0)
		for span < int64(jobs) {
			span *= 4
		}
		const revisions = 100_000
		for r := int64(1); r <= revisions; r++ {
			at := demandHorizon(r, jobs)
			if at < last || at > r || at < r-span {
				t.Fatalf("%d jobs: horizon %d at revision %d, after %d", jobs, at, r, last)
			}
			if at != last {
				moves, last = moves+1, at
			}
		}
		if most := int(8*revisions/span) + 16; moves > most {
			t.Errorf("%d jobs: the horizon moved %d times, want at most %d", jobs, moves, most)
		}
	}
	if demandHorizon(0, 0) < 0 {
		t.Error("the horizon of an empty state is before the first revision")
	}
}

func TestRounding(t *testing.T) {
	for n, want := range map[int]int64{-1: 0, 0: 0, 1: 1, 2: 2, 3: 4, 5: 4, 11: 8, 12: 16, 12_000: 8192, 49_152: 65_536} {
		if got := nearestPowerOfTwo(n); got != want {
			t.Errorf("NearestPowerOfTwo(%d) = %d, want %d", n, got, want)
		}
	}
	for n, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 4, 5: 4, 7: 6, 1000: 768, 1024: 1024} {
		if got := roughCount(n); got != want {
			t.Errorf("RoughCount(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestComputeFills checks the field Fills, which predicts how much of a device's free capacity will be used by
// shares.
func TestComputeFills(t *testing.T) {
	computed := func(asks map[int]int64) *WorkloadMix {
		var p WorkloadMix
		for size, rate := range asks {
			p.rates[size] = rate
		}
		p.computeFills()
		return &p
	}
	large := computed(map[int]int64{810: 1000, cluster.WholeMilli: 1000})
	for left, want := range map[int]int32{0: 0, 190: 0, 809: 0} {
		if got := large.Fills[left]; got != want {
			t.Errorf("%d free, expected shares of 810 and 1000: worth %d, want %d", left, got, want)
		}
	}
	if got := large.Fills[810]; got < 780 || got > 810 {
		t.Errorf("810 free, expected shares of 810: worth %d", got)
	}
	small := computed(map[int]int64{810: 1000, 160: 200, cluster.WholeMilli: 1000})
	if got := small.Fills[190]; got < 30 || got > 32 {
		t.Errorf("190 free, expected shares of 160 for a fifth of such gaps: worth %d, want 32", got)
	}
	if got := small.Fills[350]; got < 30 || got > 64 {
		t.Errorf("350 free, two of the few shares of 160 would fit: worth %d", got)
	}
	enough := computed(map[int]int64{810: 1000, 160: 2000, cluster.WholeMilli: 1000})
	if got := enough.Fills[190]; got < 158 || got > 160 {
		t.Errorf("190 free, expected shares of 160 for all such gaps: worth %d, want 160", got)
	}
	if got := enough.Fills[cluster.WholeMilli]; got < 900 || got > 985 {
		t.Errorf("an idle device is worth %d", got)
	}
	halves := computed(map[int]int64{470: 1000})
	if got := halves.Fills[530]; got < 450 || got > 470 {
		t.Errorf("530 free, expected shares of 470: worth %d, want almost 470", got)
	}
	none := computed(nil)
	if none.Fills[cluster.WholeMilli] != 0 {
		t.Error("a free device is worth something without expected jobs")
	}
}
