package sim

import (
	"math"
	"slices"
	"time"
)

// This function rounds to three decimals. People read the report, and further digits are only
// rounding errors.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// This function sorts times and summarizes them. The function returns nil if there are no times.
func distribution(times []float64) *Distribution {
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	at := func(percent int) float64 { return rounded(percentile(times, percent)) }
	return &Distribution{Mean: rounded(sum / float64(len(times))), P50: at(50), P95: at(95), P99: at(99), Max: at(100)}
}

// The function `percentile` returns the nearest-rank percentile of sorted values. The p-th
// percentile is the smallest value v for which at least p percent of all values are less than or
// equal to v.
func percentile(sorted []float64, percent int) float64 {
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}

// The function `cdf` returns the 0th, 1st, … 100th percentile of sorted times.
func cdf(sorted []float64) []float64 {
	out := []float64{}
	for percent := 0; percent <= 100 && len(sorted) > 0; percent++ {
		out = append(out, rounded(percentile(sorted, percent)))
	}
	return out
}

// This method rounds all figures to three decimals.
func (f *Fairness) rounded() *Fairness {
	for _, v := range []*float64{&f.Jain.Mean, &f.Jain.Min, &f.Jain.MinAt, &f.Attained.Mean, &f.Attained.Min, &f.Attained.MinAt, &f.Gap, &f.GapAt, &f.GapMean} {
		*v = rounded(*v)
	}
	for i := range f.ByTenant {
		t := &f.ByTenant[i]
		t.Seconds, t.Share, t.Fair, t.Gap = rounded(t.Seconds), rounded(t.Share), rounded(t.Fair), rounded(t.Gap)
	}
	for i := range f.Series {
		p := &f.Series[i]
		p.At, p.Jain, p.Attained, p.Gap = rounded(p.At), rounded(p.Jain), rounded(p.Attained), rounded(p.Gap)
	}
	return f
}

// timeMeter integrates the allocated devices over time.
type timeMeter struct {
	milli int // currently allocated, in thousandths of devices
	peak  int
	area  float64 // thousandths of devices, multiplied by seconds
	since time.Time
}

func (m *timeMeter) to(now time.Time, change int) {
	m.area += float64(m.milli) * now.Sub(m.since).Seconds()
	m.since = now
	m.milli += change
	m.peak = max(m.peak, m.milli)
}

// This method returns the mean and the peak allocation as a percentage of all
// devices. If no simulated time has passed, the mean is the current allocation.
func (m *timeMeter) use(devices int, secs float64) (mean, peak float64) {
	milli := float64(m.milli)
	if secs > 0 {
		milli = m.area / secs
	}
	return rounded(milli / 10 / float64(devices)), rounded(float64(m.peak) / 10 / float64(devices))
}
