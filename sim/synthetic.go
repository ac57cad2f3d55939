package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Synthetic makes up jobs that look like those of a large training cluster, as many
// as one likes, the same for the same seed:
//
//   - 70 % ask for one GPU, 8 % for two, 8 % for four, 10 % for eight, 3 % for two
//     machines of eight, 0.8 % for four and 0.2 % for eight of them; each GPU
//     comes with 4, 8 or 12 cores and 8 GB of memory a core;
//   - running times are lognormal with a median of a quarter of an hour and a mean
//     of about three, between ten seconds and a day, in whole seconds;
//   - they come at random, by day half as often again as on average and by night
//     half as often, so that on average they ask for Load times the fleet;
//   - tenants are many, and the n'th is 1/n as busy as the first.
type Synthetic struct {
	Jobs    int
	GPUs    int     // of the fleet
	Load    float64 // 1 asks for all of it
	Tenants int     // 50 if it is 0
	Seed    uint64
}

// sizes are what jobs ask for, with how many of a thousand ask for it.
var sizes = []struct{ parts, members, gpus int }{{700, 1, 1}, {80, 1, 2}, {80, 1, 4}, {100, 1, 8}, {30, 2, 8}, {8, 4, 8}, {2, 8, 8}}

// The running times, in seconds.
const (
	medianRun = 900
	sigmaRun  = 1.5
	leastRun  = 10
	mostRun   = 24 * 3600
)

// Stream yields the jobs one by one. Each is good until the next is asked for.
func (d Synthetic) Stream() func() (*Arrival, bool) {
	dice := rand.New(rand.NewPCG(d.Seed, 0xd1ce)) //nolint:gosec // a draw that can be had again
	if d.Tenants == 0 {
		d.Tenants = 50
	}
	busy := make([]float64, d.Tenants) // sums
	names := make([]string, d.Tenants)
	sum := 0.0
	for i := range busy {
		sum += 1 / float64(i+1)
		busy[i], names[i] = sum, fmt.Sprintf("tenant-%02d", i)
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
		at += dice.ExpFloat64() * every / wave
		tenant, point := 0, dice.Float64()*sum
		for busy[tenant] < point {
			tenant++
		}
		a = Arrival{At: time.Duration(at) * time.Second, Runs: drawRun(dice), Spec: drawSpec(dice), Line: d.Jobs - left}
		a.Spec.Tenant = names[tenant]
		return &a, true
	}
}

// Trace is all the jobs at once.
func (d Synthetic) Trace() *Trace {
	t := &Trace{Format: "drawn", Arrivals: make([]Arrival, 0, d.Jobs)}
	next := d.Stream()
	for a, more := next(); more; a, more = next() {
		t.Arrivals = append(t.Arrivals, *a)
	}
	return t
}

func drawRun(dice *rand.Rand) time.Duration {
	secs := medianRun * math.Exp(sigmaRun*dice.NormFloat64())
	return time.Duration(min(max(secs, leastRun), mostRun)) * time.Second
}

func drawSpec(dice *rand.Rand) ares.Spec {
	point, k := dice.IntN(1000), 0
	for ; point >= sizes[k].parts; k++ {
		point -= sizes[k].parts
	}
	cores := 4 * (1 + dice.IntN(3)) * sizes[k].gpus
	return ares.Spec{Members: sizes[k].members, GPUs: sizes[k].gpus, CPUs: cores, MemoryMB: 8192 * cores}
}

// meanGPUSeconds is what a job asks for on average. The mean of the lognormal
// distribution between two bounds has no neat form, so it is summed up.
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
