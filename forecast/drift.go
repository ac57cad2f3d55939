package forecast

import (
	"slices"
	"time"
)

// Drift is a finding: the runs of a group have become longer or shorter.
type Drift struct {
	Of            string // what runs, for people
	Before, After time.Duration
	Runs          int // how many runs the group had had
}

// Limits of the test for drift. The newest runs are held against the older ones
// of the window, each with each; newer ones that are longer count up, shorter
// ones down. By chance the sum is beyond three and a half standard deviations less
// than once in two thousand.
const (
	newest            = 8
	minOlderRuns      = 12 // older runs to compare with
	maxHalfDeviations = 7  // of standard deviations
	maxDrifts         = 32
)

// checkDrift looks whether a group did, and makes it forget what it was before.
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

// addDrift keeps a finding for those who ask.
func (f *Forecaster) addDrift(d Drift) {
	if len(f.drifts) == maxDrifts {
		f.drifts = slices.Delete(f.drifts, 0, 1)
	}
	f.drifts = append(f.drifts, d)
}

// compareRuntimes says which of two runs is longer, 0 when that is not known.
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

// Drifts are the latest findings, oldest first, at most 32.
func (f *Forecaster) Drifts() []Drift { return slices.Clone(f.drifts) }
