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
	newest    = 8
	fewest    = 12 // older runs to compare with
	halves    = 7  // of standard deviations
	maxDrifts = 32
)

// drifted looks whether a group did, and makes it forget what it was before.
func (g *group) drifted(level int, a *Ask) (Drift, bool) {
	n, m := len(g.runs)-newest, newest
	if n < fewest {
		return Drift{}, false
	}
	sum := 0
	for _, late := range g.runs[n:] {
		for _, early := range g.runs[:n] {
			sum += compare(late, early)
		}
	}
	// The variance of the sum is mn(m+n+1)/3.
	if 4*3*sum*sum < halves*halves*m*n*(m+n+1) {
		return Drift{}, false
	}
	found := Drift{Of: levels[level].words(a), Before: middle(g.runs[:n]), After: middle(g.runs[n:]), Runs: g.seen}
	g.runs = append(g.runs[:0], g.runs[n:]...)
	g.seen = len(g.runs)
	return found, true
}

// note keeps a finding for those who ask.
func (f *Forecaster) note(d Drift) {
	if len(f.drifts) == maxDrifts {
		f.drifts = slices.Delete(f.drifts, 0, 1)
	}
	f.drifts = append(f.drifts, d)
}

// compare says which of two runs is longer, 0 when that is not known.
func compare(x, y sample) int {
	switch {
	case x.took > y.took && !y.cut:
		return 1
	case x.took < y.took && !x.cut:
		return -1
	}
	return 0
}

func middle(runs []sample) time.Duration {
	took := make([]int64, len(runs))
	for i, s := range runs {
		took[i] = s.took
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2]) * time.Millisecond
}

// Drifts are the latest findings, oldest first, at most 32.
func (f *Forecaster) Drifts() []Drift { return slices.Clone(f.drifts) }
