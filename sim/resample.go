package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// These are the ways to resample a trace.
const (
	ResampleNone  = "none"  // the unchanged trace
	ResampleOrder = "order" // the same arrival times with the jobs in another order
	ResampleDays  = "days"  // the same number of days, drawn from the trace with repetition
)

// Resamples returns the names of the ways to resample a trace.
func Resamples() []string { return []string{ResampleNone, ResampleOrder, ResampleDays} }

const day = 24 * time.Hour

// Resample draws a new trace from the jobs of this trace, which it does not change. The same seed
// draws the same trace for every policy. Runs of two policies with the same seed therefore form a
// pair. The seed also determines the order of jobs that arrive at the same time. With seed 0 and
// without resampling, the new trace equals this trace.
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
		return nil, ares.Errorf(ares.Invalid, "unknown resampling method %q: use none, order or days", how).At("resample")
	}
	shuffleTies(out.Arrivals, random)
	return &out, nil
}

// This method returns the same job with another arrival time. The deadline moves by the same
// amount.
func (a Arrival) moved(at time.Duration) Arrival {
	if !a.Spec.Deadline.IsZero() {
		a.Spec.Deadline = a.Spec.Deadline.Add(at - a.At)
	}
	a.At = at
	return a
}

// This function makes a new trace from randomly drawn days of the trace. The same day may be
// drawn several times. The number of drawn days is the number of days that the trace spans.
// Each day starts at the same time of day as the first arrival of the trace. Each drawn day
// contains all arrivals of the original day, at the same times of day.
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

// If several jobs arrive at the same time, shuffleTies puts them in a random order.
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
