package sim

import (
	"math"
	"slices"
	"time"
)

// setTimes gives the jobs their arrival times. The jobs arrive in a period that is just long enough for the load
// of the regime. Within this period, the rate of bursts follows the arrival pattern.
func (d *regimeDraw) setTimes() {
	work := (&Trace{Arrivals: d.jobs}).Work().Seconds()
	period := work / (d.regime.Load * float64(d.regime.GPUs()))
	at := d.cumulativeRate(period)
	times := make([]float64, len(d.starts))
	for i := range times {
		times[i] = d.random.Float64()
	}
	slices.Sort(times) // the first burst arrives first, because later bursts repeat its name
	times[0], times[len(times)-1] = 0, 1
	for i, first := range d.starts {
		end := len(d.jobs)
		if i+1 < len(d.starts) {
			end = d.starts[i+1]
		}
		secs := at(times[i])
		for k := first; k < end; k++ {
			d.jobs[k].At = time.Duration(secs) * time.Second
			secs += phillyBurstGap * d.random.ExpFloat64()
		}
	}
}

// cumulativeRate returns the function from a share of the bursts to the time in seconds by which this share has
// arrived.
func (d *regimeDraw) cumulativeRate(period float64) func(share float64) float64 {
	p := rhythms[d.regime.arrivals]
	hours := int(math.Ceil(period / 3600))
	sums, day := make([]float64, hours+1), 1.0
	for h := range hours {
		if h%24 == 0 {
			day = math.Exp(p.daySigma * d.random.NormFloat64())
		}
		rate := day
		if p.hours {
			rate *= phillyHours[h%24]
		}
		if p.weekdays {
			rate *= phillyWeekdays[h/24%7]
		}
		sums[h+1] = sums[h] + rate
	}
	return func(share float64) float64 {
		point := share * sums[hours]
		h, _ := slices.BinarySearch(sums, point)
		h = max(h, 1)
		part := (point - sums[h-1]) / (sums[h] - sums[h-1])
		return (float64(h-1) + part) * period / float64(hours)
	}
}
