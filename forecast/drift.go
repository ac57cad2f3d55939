package forecast

import (
	"slices"
	"time"
)

// A Drift records that the runs of a group have become longer or shorter.
type Drift struct {
	Of            string // description of the group
	Before, After time.Duration
	Runs          int // number of runs that the group had so far
}

// These are the parameters of the drift test. The test compares each of the newest runs with each
// of the group's older runs. A pair adds 1 to a sum if the newer run is longer, and -1 if it is
// shorter. Without a drift, the sum exceeds 3.5 standard deviations less than once in 2,000 tests.
const (
	newest            = 8
	minOlderRuns      = 12 // older runs to compare with
	maxHalfDeviations = 7  // in halves of standard deviations
	maxDrifts         = 32
)

// checkDrift tests a group for drift. If a group has drifted, checkDrift removes the group's older
// runs.
func (g *group) checkDrift(level int, a *Features) (Drift, bool) {
	n, m := len(g.runs)-newest, newest
	if n < minOlderRuns {
		return Drift{}, false
	}
	sum := 0
	for _, late := range g.runs[n:] {
		for _, early := range g.runs[:n] {
			sum += compareRuntimes(late, early)
		}
	}
	// The variance of the sum is mn(m+n+1)/3.
	if 4*3*sum*sum < maxHalfDeviations*maxHalfDeviations*m*n*(m+n+1) {
		return Drift{}, false
	}
	found := Drift{Of: levels[level].words(a), Before: median(g.runs[:n]), After: median(g.runs[n:]), Runs: g.seen}
	g.runs = append(g.runs[:0], g.runs[n:]...)
	g.seen = len(g.runs)
	return found, true
}

// addDrift stores a drift. The method Drifts returns it later.
func (f *Forecaster) addDrift(d Drift) {
	if len(f.drifts) == maxDrifts {
		f.drifts = slices.Delete(f.drifts, 0, 1)
	}
	f.drifts = append(f.drifts, d)
}

// compareRuntimes compares two runs by runtime. It returns 0 if the order is unknown
// because a run is censored.
func compareRuntimes(x, y sample) int {
	switch {
	case x.runtime > y.runtime && !y.censored:
		return 1
	case x.runtime < y.runtime && !x.censored:
		return -1
	}
	return 0
}

func median(runs []sample) time.Duration {
	took := make([]int64, len(runs))
	for i, s := range runs {
		took[i] = s.runtime
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2]) * time.Millisecond
}

// Drifts returns up to 32 of the latest drifts, oldest first.
func (f *Forecaster) Drifts() []Drift { return slices.Clone(f.drifts) }
