package previous

import (
	"fmt"
	"math"
	"time"

	"github.com/ares-scheduler/ares/forecast"
)

// These are the constants of the previous forecaster.
const (
	window       = 32 // runs of a group
	shrinkage    = 3  // a group of this many runs weighs as much as all wider groups
	halfLife     = 16 // of the weight of a run, in newer runs
	minShare     = 0.01
	guessWeight  = 1e-4
	guessParts   = 10
	unlimited    = 24 * time.Hour // assumed for a job without a limit
	target       = 0.1
	stepOfKind   = 0.05
	stepOfTenant = 0.05
	maxShift     = 12
	tenantLevel  = 7
	levels       = 11
)

// A Forecaster predicts runtimes as Ares did before.
type Forecaster struct {
	groups map[string]*group
	shifts [levels + 1]float64 // binary logarithms, by the level with the largest weight
}

type group struct {
	runs  []run
	seen  int
	shift float64
}

// The type `run` is one run of a group. The value is in milliseconds, or in millionths of the time limit.
type run struct {
	value    int64
	censored bool
}

// New returns a forecaster that has seen no runs.
func New() *Forecaster { return &Forecaster{groups: map[string]*group{}} }

// isShare reports whether the groups of a level store fractions of the time limit.
func isShare(level int) bool { return level == 3 || level == 8 }

// keysOf returns the keys of the groups of a job, "" for a level at which it has no group.
func keysOf(a *forecast.Features) (out [levels]string) {
	size := fmt.Sprintf("%s/%d", a.Model, a.Milli)
	tenant := fmt.Sprintf("%q", a.Tenant)
	user := fmt.Sprintf("%s/%q", tenant, a.User)
	name := fmt.Sprintf("%s/%q", user, a.Name)
	set := func(level int, has bool, text string) {
		if has {
			out[level] = fmt.Sprintf("%d/%s", level, text)
		}
	}
	set(0, a.Name != "" || a.Command != "", fmt.Sprintf("%s/%q/%q/%s", name, a.Image, a.Command, size))
	set(1, a.Name != "", name+"/"+size)
	set(2, a.Name != "", name)
	set(3, a.User != "" && a.Limit > 0, user)
	set(4, a.User != "", user+"/"+size)
	set(5, a.User != "", user)
	set(6, true, tenant+"/"+size)
	set(7, true, tenant)
	set(8, a.Limit > 0, "")
	set(9, true, size)
	set(10, true, "")
	return out
}

// Predict returns the median and the p90 of a job's runtime.
func (f *Forecaster) Predict(a forecast.Features) (p50, p90 time.Duration) {
	keys := keysOf(&a)
	all, main := f.blend(&a, &keys)
	shift := f.shifts[main]
	if g := f.groups[keys[tenantLevel]]; g != nil {
		shift += g.shift
	}
	p50, p90 = quantile(all, 0.5), time.Duration(float64(quantile(all, 0.9))*math.Exp2(shift))
	if a.Limit > 0 {
		p50, p90 = min(p50, a.Limit), min(p90, a.Limit)
	}
	return min(p50, p90), p90
}

// Observe learns from an ended run.
func (f *Forecaster) Observe(r forecast.Run) {
	if r.Took < 0 || r.Outcome == forecast.Cut && r.Took == 0 {
		return
	}
	keys := keysOf(&r.Features)
	limit := r.Features.Limit
	if r.Outcome == forecast.Limited && limit > 0 {
		r.Took = min(r.Took, limit)
	}
	if late := r.Took > r.Predicted.P90; r.Predicted.P90 > 0 && !r.Overdue && (late || r.Outcome != forecast.Cut) {
		f.calibrate(&keys, !late)
	}
	for i, key := range keys {
		if key == "" {
			continue
		}
		value := r.Took.Milliseconds()
		if isShare(i) {
			value = int64(min(float64(r.Took)/float64(limit), 1) * 1e6)
		}
		f.group(key).add(run{value, r.Outcome != forecast.Ended})
	}
}

// Overdue records that a run has exceeded its predicted p90.
func (f *Forecaster) Overdue(a forecast.Features) {
	keys := keysOf(&a)
	f.calibrate(&keys, false)
}

func (f *Forecaster) calibrate(keys *[levels]string, covered bool) {
	_, main, _ := f.shares(keys)
	miss := 1 - target
	if covered {
		miss = -target
	}
	t := f.group(keys[tenantLevel])
	f.shifts[main] = clamp(f.shifts[main] + stepOfKind*miss)
	t.shift = clamp(t.shift + stepOfTenant*miss)
}

func clamp(shift float64) float64 { return max(-maxShift, min(maxShift, shift)) }

func (f *Forecaster) group(key string) *group {
	if f.groups[key] == nil {
		f.groups[key] = &group{}
	}
	return f.groups[key]
}

// The method `add` adds a run. If the last 8 runs then differ from the older ones by 3.5 standard
// deviations of a rank test, the older ones are dropped.
func (g *group) add(r run) {
	g.runs = append(g.runs[max(0, len(g.runs)-window+1):], r)
	g.seen++
	n, m := len(g.runs)-8, 8
	if n < 12 {
		return
	}
	sum := 0
	for _, late := range g.runs[n:] {
		for _, early := range g.runs[:n] {
			switch {
			case late.value > early.value && !early.censored:
				sum++
			case late.value < early.value && !late.censored:
				sum--
			}
		}
	}
	if 4*3*sum*sum >= 49*m*n*(m+n+1) {
		g.runs = append([]run(nil), g.runs[n:]...)
		g.seen = len(g.runs)
	}
}
