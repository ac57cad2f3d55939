package forecast

import "time"

// group is the last runs of similar jobs.
type group struct {
	key  uint64
	runs []sample // oldest first, at most Config.Window
	seen int      // number of runs since it drifted
	// shift is the correction of a tenant, as a binary logarithm.
	shift float64

	older, newer *group // neighbours in the order of last runs
}

// sample is one run.
type sample struct {
	runtime  int64 // milliseconds, or millionths of the time limit
	censored bool  // it was cut short and would have taken longer
}

func (g *group) add(s sample, window int) {
	if len(g.runs) >= window {
		copy(g.runs, g.runs[len(g.runs)-window+1:])
		g.runs = g.runs[:window-1]
	}
	g.runs = append(g.runs, s)
	g.seen++
}

// groups finds groups by key and forgets those longest without a run.
type groups struct {
	byKey  map[uint64]*group
	limit  int
	oldest *group
	newest *group
}

// touch returns the group of a key and makes it the newest. It creates the
// group if there is none.
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

// shares is the number of parts that a time limit is divided into.
const shares = 1_000_000

// longest is the largest runtime that is counted.
const longest = 10 * 365 * 24 * time.Hour

// sampleOf returns a run as a level keeps it.
func sampleOf(l *level, took, limit time.Duration, cut bool) sample {
	if l.share {
		return sample{runtime: int64(min(float64(took)/float64(limit), 1) * shares), censored: cut}
	}
	return sample{runtime: min(took, longest).Milliseconds(), censored: cut}
}

// runtimeFor returns the runtime that a sample means for a job with a time
// limit, in milliseconds.
func (s sample) runtimeFor(l *level, limit time.Duration) int64 {
	if l.share {
		return min(int64(float64(s.runtime)/shares*float64(limit.Milliseconds())), longest.Milliseconds())
	}
	return min(s.runtime, longest.Milliseconds())
}
