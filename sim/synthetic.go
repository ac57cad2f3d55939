package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Synthetic generates any number of jobs like those of a large training cluster.
// The same seed generates the same jobs.
//
//   - 70 % of the jobs request one GPU, 8 % request two, 8 % request four and 10 %
//     request eight. 3 % of the jobs request two machines with eight GPUs each. Another
//     0.8 % request four such machines, and 0.2 % request eight. For each GPU, a job
//     requests 4, 8 or 12 cores, and 8 GB of memory per core.
//   - Runtimes are whole seconds with a lognormal distribution between ten seconds
//     and a day. The median is 15 minutes and the mean is about 45 minutes.
//   - Jobs arrive at random times. The rate of arrivals is 1.5 times the mean rate by
//     day, and half the mean rate by night. The field Load is the mean number of
//     requested GPUs, divided by the number of GPUs in the fleet.
//   - If the first tenant submits k jobs, tenant number n submits k/n jobs.
type Synthetic struct {
	Jobs    int
	GPUs    int     // GPUs of the fleet
	Load    float64 // 1 means that jobs request the whole fleet on average
	Tenants int     // default 50
	Seed    uint64
}

// This table lists the possible requests of a job, each with its frequency in thousandths.
var sizes = []struct{ parts, members, gpus int }{{700, 1, 1}, {80, 1, 2}, {80, 1, 4}, {100, 1, 8}, {30, 2, 8}, {8, 4, 8}, {2, 8, 8}}

// These constants describe the distribution of runtimes, in seconds.
const (
	medianRun = 900
	sigmaRun  = 1.5
	leastRun  = 10
	mostRun   = 24 * 3600
)

// Stream returns the jobs one by one. Each job is valid until the next one is requested.
func (d Synthetic) Stream() func() (*Arrival, bool) {
	random := rand.New(rand.NewPCG(d.Seed, 0xd1ce)) //nolint:gosec // reproducible on purpose
	if d.Tenants == 0 {
		d.Tenants = 50
	}
	cumulative := make([]float64, d.Tenants)
	names := make([]string, d.Tenants)
	sum := 0.0
	for i := range cumulative {
		sum += 1 / float64(i+1)
		cumulative[i], names[i] = sum, fmt.Sprintf("tenant-%02d", i)
	}
	every := meanGPUSeconds() / (d.Load * float64(d.GPUs)) // seconds between two jobs, on average
	at, left := 0.0, d.Jobs
	var a Arrival
	return func() (*Arrival, bool) {
		if left == 0 {
			return nil, false
		}
		left--
		wave := 1 - 0.5*math.Cos(2*math.Pi*at/86400)
		at += random.ExpFloat64() * every / wave
		tenant, point := 0, random.Float64()*sum
		for cumulative[tenant] < point {
			tenant++
		}
		a = Arrival{At: time.Duration(at) * time.Second, Runs: drawRun(random), Spec: drawSpec(random), Line: d.Jobs - left}
		a.Spec.Tenant = names[tenant]
		return &a, true
	}
}

// Trace returns all jobs at once.
func (d Synthetic) Trace() *Trace {
	t := &Trace{Format: "drawn", Arrivals: make([]Arrival, 0, d.Jobs)}
	next := d.Stream()
	for a, more := next(); more; a, more = next() {
		t.Arrivals = append(t.Arrivals, *a)
	}
	return t
}

func drawRun(random *rand.Rand) time.Duration {
	secs := medianRun * math.Exp(sigmaRun*random.NormFloat64())
	return time.Duration(min(max(secs, leastRun), mostRun)) * time.Second
}

func drawSpec(random *rand.Rand) ares.Spec {
	point, k := random.IntN(1000), 0
	for ; point >= sizes[k].parts; k++ {
		point -= sizes[k].parts
	}
	cores := 4 * (1 + random.IntN(3)) * sizes[k].gpus
	return ares.Spec{Members: sizes[k].members, GPUs: sizes[k].gpus, CPUs: cores, MemoryMB: 8192 * cores}
}

// meanGPUSeconds returns the mean GPU-seconds of a job. The mean of a lognormal
// distribution between two bounds is integrated numerically.
func meanGPUSeconds() float64 {
	const steps = 20_000
	run := 0.0
	for i := range steps {
		z := 16*(float64(i)+0.5)/steps - 8
		run += math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * 16 / steps * min(max(medianRun*math.Exp(sigmaRun*z), leastRun), mostRun)
	}
	gpus := 0.0
	for _, s := range sizes {
		gpus += float64(s.parts*s.members*s.gpus) / 1000
	}
	return run * gpus
}
