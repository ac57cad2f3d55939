package sim

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The constants of the regimes are those of the published traces.
func TestRegimesMatchTraces(t *testing.T) {
	t.Parallel()
	traces := os.Getenv("ARES_TRACES")
	if traces == "" {
		t.Skip("ARES_TRACES does not say where the traces are")
	}
	philly := readTrace(t, filepath.Join(traces, "philly", "philly.csv"), "philly")
	from, to := time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC), time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC)
	philly.Arrivals = slices.DeleteFunc(philly.Arrivals, func(a Arrival) bool {
		at := time.Unix(0, 0).Add(a.At)
		return at.Before(from) || !at.Before(to)
	})
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s is %.4g in the trace, and %.4g in the code", what, got, want)
		}
	}
	checkPhillyRuns(t, philly, near)
	checkPhillyArrivals(philly, to.Sub(from), near)
	checkSizes("philly", philly, phillySizes, near)
	openb := readTrace(t, filepath.Join(traces, "openb", "openb_pod_list_default.csv"), "openb")
	openb.Arrivals = slices.DeleteFunc(openb.Arrivals, func(a Arrival) bool { return a.gpuMilli() == 0 })
	checkSizes("openb", openb, openbSizes, near)
}

func readTrace(t *testing.T, name, format string) *Trace {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	trace, err := Read(format, file)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// checkPhillyRuns measures the runtimes by GPU count, and compares them with drawn runtimes.
func checkPhillyRuns(t *testing.T, trace *Trace, near func(what string, got, want, within float64)) {
	t.Helper()
	var runs [4][]float64
	for i := range trace.Arrivals {
		a := &trace.Arrivals[i]
		c := sizeClass(int(a.gpuMilli()))
		runs[c] = append(runs[c], a.Runs.Seconds())
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible on purpose
	for c, secs := range runs {
		slices.Sort(secs)
		m, n := &phillyRuns[c], len(secs)
		short, _ := slices.BinarySearch(secs, m.shortMost)
		tail := secs[n-int(m.tail*float64(n)):]
		sum := 0.0
		for _, s := range tail {
			sum += math.Log(s / tail[0])
		}
		near("share of short failures", float64(short)/float64(n), m.short, 0.002)
		near("start of the tail", tail[0]/m.tailFrom, 1, 0.002)
		near("exponent of the tail", float64(len(tail))/sum, m.alpha, 0.01)
		drawn := make([]float64, 20_000)
		for i := range drawn {
			drawn[i] = m.long(random)
			if random.Float64() < m.short {
				drawn[i] = truncatedNormal(random, m.shortMu, m.shortSigma, math.Log(5), math.Log(m.shortMost))
			}
		}
		slices.Sort(drawn)
		for _, percent := range []int{10, 50, 75, 90, 95} {
			near("ln of a percentile", math.Log(percentile(secs, percent)), percentile(drawn, percent), 1)
		}
	}
}

// checkPhillyArrivals measures the rate of arrivals and the bursts.
func checkPhillyArrivals(trace *Trace, period time.Duration, near func(what string, got, want, within float64)) {
	var hours [24]float64
	var weekdays, weekdayCount [7]float64
	days := map[int]float64{}
	all, dayCount := float64(len(trace.Arrivals)), period.Hours()/24
	type kind struct {
		tenant string
		milli  float64
	}
	last, size := map[kind]time.Duration{}, map[kind]int{}
	var bursts []int
	var gaps, gap float64
	for i := range trace.Arrivals {
		a := &trace.Arrivals[i]
		at := time.Unix(0, 0).UTC().Add(a.At)
		hours[at.Hour()] += 24 / all
		weekdays[(at.Weekday()+6)%7] += dayCount / all
		days[int(a.At/day)]++
		k := kind{a.Spec.Tenant, a.gpuMilli()}
		if before, there := last[k]; there && a.At-before <= 30*time.Second {
			size[k]++
			gaps, gap = gaps+1, gap+(a.At-before).Seconds()
		} else {
			bursts = append(bursts, size[k])
			size[k] = 1
		}
		last[k] = a.At
	}
	for _, n := range size {
		bursts = append(bursts, n)
	}
	bursts = slices.DeleteFunc(bursts, func(n int) bool { return n == 0 })
	for d := range days {
		weekdayCount[(int(time.Unix(0, 0).UTC().Add(time.Duration(d)*day).Weekday())+6)%7]++
	}
	logs := 0.0
	for h, rate := range hours {
		near("rate of an hour", rate, phillyHours[h], 0.01)
	}
	for d := range weekdays {
		near("rate of a weekday", weekdays[d]/weekdayCount[d], phillyWeekdays[d], 0.01)
	}
	var mean, squares float64
	for d, n := range days {
		weekday := (int(time.Unix(0, 0).UTC().Add(time.Duration(d)*day).Weekday()) + 6) % 7
		log := math.Log(n / (all / dayCount) / phillyWeekdays[weekday])
		mean, squares = mean+log/dayCount, squares+log*log/dayCount
	}
	near("deviation of the days", math.Sqrt(squares-mean*mean), phillyDaySigma, 0.01)
	multiple := 0.0
	for _, n := range bursts {
		if n > 1 {
			multiple++
			logs += math.Log(float64(n) / 2)
		}
	}
	near("share of single jobs", 1-multiple/float64(len(bursts)), phillySingles, 0.01)
	near("exponent of the bursts", multiple/logs, phillyBurstAlpha, 0.01)
	near("seconds between the jobs of a burst", gap/gaps, phillyBurstGap, 0.1)
}

// checkSizes measures the share of the jobs by GPU count. Shares of GPUs are rounded to tenths.
func checkSizes(name string, trace *Trace, want []sizeShare, near func(what string, got, want, within float64)) {
	shares := map[int]float64{}
	for i := range trace.Arrivals {
		milli := trace.Arrivals[i].gpuMilli()
		if milli < 1000 {
			milli = 100 * math.Round(milli/100)
		}
		shares[int(milli)] += 1 / float64(len(trace.Arrivals))
	}
	for _, s := range want {
		near(name+": share of a size", shares[s.milli], s.share, 0.001)
	}
}
