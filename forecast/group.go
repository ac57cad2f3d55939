package forecast

import "time"

// A group contains the last runs of similar jobs.
type group struct {
	key  uint64
	runs []sample // oldest first, up to Config.Window
	seen int      // number of runs since it drifted
	// The field `shift` is the binary logarithm of the factor that corrects a tenant's
	// predictions.
	shift float64

	older, newer *group // neighbours in the order of the latest run
}

// A sample is one run.
type sample struct {
	runtime  int64 // milliseconds, or millionths of the time limit
	censored bool  // the run was cut short and would have taken longer
}

func (g *group) add(s sample, window int) {
	if len(g.runs) >= window {
		copy(g.runs, g.runs[len(g.runs)-window+1:])
		g.runs = g.runs[:window-1]
	}
	g.runs = append(g.runs, s)
	g.seen++
}

// This type finds groups by their keys. When there are too many groups, the group that has had
// no new run for the longest time is dropped.
type groups struct {
	byKey  map[uint64]*group
	limit  int
	oldest *group
	newest *group
}

// The method `touch` returns the group with the given key and marks it as the most recently
// used. If the group does not exist, the method creates it.
func (gs *groups) touch(key uint64) *group {
	g := gs.byKey[key]
	switch {
	case g == nil:
		if len(gs.byKey) >= gs.limit {
			last := gs.oldest
			gs.unlink(last)
			delete(gs.byKey, last.key)
		}
		g = &group{key: key}
		gs.byKey[key] = g
	case g == gs.newest:
		return g
	default:
		gs.unlink(g)
	}
	g.older, g.newer = gs.newest, nil
	if gs.newest != nil {
		gs.newest.newer = g
	} else {
		gs.oldest = g
	}
	gs.newest = g
	return g
}

func (gs *groups) unlink(g *group) {
	if g.older != nil {
		g.older.newer = g.newer
	} else {
		gs.oldest = g.newer
	}
	if g.newer != nil {
		g.newer.older = g.older
	} else {
		gs.newest = g.older
	}
}

// A runtime may be stored as a fraction of the time limit. Then the unit is 1/shares, which
// is one millionth.
const shares = 1_000_000

// This constant is the longest runtime that is stored. A longer runtime is stored as this value.
const longest = 10 * 365 * 24 * time.Hour

// sampleOf converts a run to the form in which a group of the given level stores it.
func sampleOf(l *level, took, limit time.Duration, cut bool) sample {
	if l.share {
		return sample{runtime: int64(min(float64(took)/float64(limit), 1) * shares), censored: cut}
	}
	return sample{runtime: min(took, longest).Milliseconds(), censored: cut}
}

// runtimeFor converts a sample to a runtime in milliseconds. The runtime is for a job with the
// given time limit.
func (s sample) runtimeFor(l *level, limit time.Duration) int64 {
	if l.share {
		return min(int64(float64(s.runtime)/shares*float64(limit.Milliseconds())), longest.Milliseconds())
	}
	return min(s.runtime, longest.Milliseconds())
}
