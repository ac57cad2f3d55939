package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// RegimePrefix starts the name of a workload that is drawn from a regime: regime:philly-64-l0.5.
const RegimePrefix = "regime:"

// Regime is a named kind of workload with a fleet. Traces are drawn from a regime by seed. Regimes exist
// to compare queue orders: one half is for tuning a policy, and the other half only judges it.
type Regime struct {
	Name string
	// Load is the requested GPU time divided by the GPU time of the fleet, over the period in which jobs
	// arrive.
	Load float64
	// Learnable says whether earlier runs predict the runtime of a job. In the other regimes, all
	// runtimes are shuffled, so nothing that is known about a job predicts its runtime.
	Learnable bool
	// Judged says that the regime must not be used for tuning.
	Judged bool
	Jobs   int

	fleet    regimeFleet
	sizes    sizeMix
	runs     runFamily
	arrivals arrivalPattern
	users    userHabits
	limits   limitHabit
	tenants  int // number of tenants, each with two queues; 0 for the default tenant
}

// Regimes returns all regimes, ordered by load.
func Regimes() []Regime { return slices.Clone(regimes) }

// RegimeNamed returns the regime with this name.
func RegimeNamed(name string) (Regime, error) {
	for i := range regimes {
		if regimes[i].Name == name {
			return regimes[i], nil
		}
	}
	names := make([]string, len(regimes))
	for i := range regimes {
		names[i] = regimes[i].Name
	}
	return Regime{}, ares.Errorf(ares.Invalid, "unknown regime %q: use one of %s", name, strings.Join(names, ", ")).At("workload")
}

// Fleet returns the machines, tenants and queues of the regime. They are the same for every seed.
func (r *Regime) Fleet() *Fleet {
	f := r.fleet.build()
	f.Digest = digest([]byte(RegimePrefix + r.Name))
	for i := range r.tenants {
		f.Shares = append(f.Shares, Tenant{
			Name: regimeTenant(i), Weight: float64(1 + i%2), Queues: []Queue{{Name: queueNames[0], Weight: 2}, {Name: queueNames[1], Weight: 1}},
		})
	}
	return f
}

// GPUs returns the number of GPUs of the fleet.
func (r *Regime) GPUs() int {
	n := 0
	for _, m := range r.fleet.build().Machines {
		n += m.Count * m.GPUs
	}
	return n
}

// About describes the regime in a few words.
func (r *Regime) About() string {
	words := []string{"sizes " + string(r.sizes), "runtimes " + string(r.runs), "arrivals " + string(r.arrivals), "users " + string(r.users), "limits " + string(r.limits)}
	return strings.Join(words, ", ")
}

// Trace draws the jobs of the regime. The same seed gives the same jobs.
func (r *Regime) Trace(seed uint64) *Trace {
	name := fnv.New64a()
	_, _ = name.Write([]byte(r.Name))                           // a hash never fails
	random := rand.New(rand.NewPCG(seed, name.Sum64()))         //nolint:gosec // reproducible on purpose
	d := &regimeDraw{regime: r, random: random, fleet: r.fleet} // one draw makes one trace
	d.drawUsers()
	d.drawSessions()
	if !r.Learnable {
		d.shuffleRuns()
	}
	d.setLimits()
	d.setTimes()
	t := &Trace{Format: "workload", Digest: digest([]byte(RegimePrefix + r.Name)), Arrivals: d.jobs}
	return t.sorted()
}

// Work returns the GPU time that the jobs of a trace request.
func (t *Trace) Work() time.Duration {
	milli := 0.0
	for i := range t.Arrivals {
		milli += t.Arrivals[i].gpuMilli() * float64(t.Arrivals[i].Runs)
	}
	return time.Duration(milli / 1000)
}

// gpuMilli returns the thousandths of GPUs of all members.
func (a *Arrival) gpuMilli() float64 {
	return float64(max(a.Spec.Members, 1) * max(1000*a.Spec.GPUs, a.Spec.GPUMilli))
}
