package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The ways to resample a trace.
const (
	ResampleNone  = "none"  // the trace as it is
	ResampleOrder = "order" // the same arrival times with the jobs in another order
	ResampleDays  = "days"  // the same number of days, drawn from the trace with repetition
)

// Resamples returns the names of the ways to resample a trace.
func Resamples() []string { return []string{ResampleNone, ResampleOrder, ResampleDays} }

const day = 24 * time.Hour

// Resample draws a trace from this one, which is not changed. The same seed
// draws the same trace for every policy, so runs of two policies with one seed
// are a pair. The seed also draws the order of jobs that arrive at the same
// time; with seed 0 and no resampling the trace stays as it is.
func (t *Trace) Resample(how string, seed uint64) (*Trace, error) {
	out := *t
	out.Arrivals = slices.Clone(t.Arrivals)
	random := rand.New(rand.NewPCG(seed, 0x5e5a)) //nolint:gosec // reproducible on purpose
	switch how {
	case ResampleNone, "":
		if seed == 0 {
			return &out, nil
		}
	case ResampleOrder:
		random.Shuffle(len(out.Arrivals), func(i, k int) {
			a, b := out.Arrivals[i], out.Arrivals[k]
			out.Arrivals[i], out.Arrivals[k] = b.moved(a.At), a.moved(b.At)
		})
	case ResampleDays:
		out.Arrivals = days(t.Arrivals, random)
	default:
		return nil, ares.Errorf(ares.Invalid, "unknown resampling %q: use none, order or days", how).At("resample")
	}
	shuffleTies(out.Arrivals, random)
	return &out, nil
}

// moved returns the arrival at another time, with its deadline moved along.
func (a Arrival) moved(at time.Duration) Arrival {
	if !a.Spec.Deadline.IsZero() {
		a.Spec.Deadline = a.Spec.Deadline.Add(at - a.At)
	}
	a.At = at
	return a
}

// days draws as many days as the arrivals span. A day starts at the time of the
// first arrival; the time of day of each arrival, and the other arrivals of its
// day, stay.
func days(from []Arrival, random *rand.Rand) []Arrival {
	if len(from) == 0 {
		return nil
	}
	zero := from[0].At
	byDay := make([][]Arrival, int((from[len(from)-1].At-zero)/day)+1)
	for _, a := range from {
		n := int((a.At - zero) / day)
		byDay[n] = append(byDay[n], a)
	}
	out := make([]Arrival, 0, len(from))
	for n := range byDay {
		drawn := random.IntN(len(byDay))
		for _, a := range byDay[drawn] {
			out = append(out, a.moved(a.At+time.Duration(n-drawn)*day))
		}
	}
	return out
}

// shuffleTies draws the order of jobs that arrive at the same time.
func shuffleTies(all []Arrival, random *rand.Rand) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].At == all[0].At {
			n++
		}
		random.Shuffle(n, func(i, k int) { all[i], all[k] = all[k], all[i] })
		all = all[n:]
	}
}
