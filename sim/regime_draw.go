package sim

import (
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// regimeDraw draws one trace of a regime.
type regimeDraw struct {
	regime *Regime
	fleet  regimeFleet
	random *rand.Rand
	users  []regimeUser
	jobs   []Arrival
	starts []int // for each burst, the index of its first job
	unique int   // names given so far
}

// regimeUser is a user with the names under which the user runs jobs.
type regimeUser struct {
	name, tenant string
	weight       float64 // the share of the sessions is proportional to it
	since        float64 // share of the sessions before the user's first
	scale        float64 // added to ln(runtime) of all jobs of the user
	names        []regimeName
}

// regimeName describes the jobs that run under one name.
type regimeName struct {
	spec   ares.Spec
	model  *runModel
	mean   float64 // of ln(runtime)
	broken bool    // every run fails early
}

// userSigma is the deviation of the runtimes between users, in ln(runtime). It makes the owner of a job with a new
// name informative.
const userSigma = 0.5

// brokenShare is the share of the short failures of jobs whose name always fails. The other short failures hit jobs
// that usually work. In Philly, ln(runtime) of two consecutive jobs of a burst has a correlation of 0.90, so most
// failures hit whole bursts.
const brokenShare = 0.8

// namesAtFirst is the number of names of a user from whom no job has been drawn yet.
const namesAtFirst = 4

// drawUsers draws the users. Few users submit most of the jobs.
func (d *regimeDraw) drawUsers() {
	h := habitKinds[d.regime.users]
	for i := range h.users {
		u := regimeUser{name: "user-" + letters(i), weight: 1 / float64(i+1), scale: userSigma * d.random.NormFloat64()}
		if d.regime.tenants > 0 {
			u.tenant = regimeTenant(i % d.regime.tenants)
		}
		if i > 0 && d.random.Float64() < h.late { // the most active user is there from the start
			u.since = 0.9 * d.random.Float64()
		}
		for range namesAtFirst {
			d.newName(&u)
		}
		d.users = append(d.users, u)
	}
}

// drawSessions draws bursts of jobs until there are enough. Each burst runs one name of one user.
func (d *regimeDraw) drawSessions() {
	h, all := habitKinds[d.regime.users], d.regime.Jobs
	for len(d.jobs) < all {
		u := d.pickUser(float64(len(d.jobs)) / float64(all))
		var n *regimeName
		if known := len(u.names); known > 0 && d.random.Float64() < h.repeat {
			n = &u.names[int(float64(known)*math.Pow(d.random.Float64(), 2))] // earlier names are more frequent
			n.mean += h.drift * d.random.NormFloat64()
		} else {
			n = d.newName(u)
		}
		d.starts = append(d.starts, len(d.jobs))
		for range min(d.burst(n), all-len(d.jobs)) {
			d.jobs = append(d.jobs, Arrival{Owner: u.name, Runs: d.runtime(n, h.spread), Spec: n.spec})
		}
	}
}

// pickUser returns a user who is active when this share of the jobs has been drawn.
func (d *regimeDraw) pickUser(share float64) *regimeUser {
	sum := 0.0
	for i := range d.users {
		if d.users[i].since <= share {
			sum += d.users[i].weight
		}
	}
	point := sum * d.random.Float64()
	for i := range d.users {
		if d.users[i].since > share {
			continue
		}
		if point -= d.users[i].weight; point < 0 {
			return &d.users[i]
		}
	}
	return &d.users[0]
}

// newName adds a name to a user, with the size and the mean runtime of its jobs.
func (d *regimeDraw) newName(u *regimeUser) *regimeName {
	d.unique++
	n := regimeName{spec: ares.Spec{Name: "job-" + letters(d.unique), Tenant: u.tenant}}
	if u.tenant != "" {
		n.spec.Queue = queueNames[d.random.IntN(len(queueNames))]
	}
	if models := d.fleet.models(); len(models) > 0 && d.random.IntN(3) == 0 {
		n.spec.GPUModel = models[d.random.IntN(len(models))]
	}
	milli := d.size(d.fleet.pool(n.spec.GPUModel), &n.spec)
	family := runFamilies[d.regime.runs]
	n.model = &family[sizeClass(milli)]
	n.broken = d.random.Float64() < brokenShare*n.model.short
	n.mean = n.model.long(d.random) + u.scale
	u.names = append(u.names, n)
	return &u.names[len(u.names)-1]
}

// size draws the GPUs of a job and returns them in thousandths. A job uses at most half of the nodes that fit its
// members, so that two such jobs can run at a time.
func (d *regimeDraw) size(p regimePool, spec *ares.Spec) int {
	mix, sum := sizeMixes[d.regime.sizes], 0.0
	most := 1000 * max(p.gpus/2, p.node)
	for _, s := range mix {
		if s.milli <= most {
			sum += s.share
		}
	}
	point, milli := sum*d.random.Float64(), 1000
	for _, s := range mix {
		if s.milli > most {
			continue
		}
		milli = s.milli
		if point -= s.share; point < 0 {
			break
		}
	}
	cores := openbCPUs[d.random.IntN(len(openbCPUs))]
	if milli < 1000 {
		spec.GPUMilli, spec.CPUs = milli, max(1, cores*milli/1000)
	} else {
		gpus := milli / 1000
		spec.GPUs = gpus
		if gpus > p.node {
			for spec.Members = (gpus + p.node - 1) / p.node; gpus%spec.Members != 0; spec.Members++ {
				continue // members are equal
			}
			spec.GPUs = gpus / spec.Members
		}
		spec.CPUs = cores * spec.GPUs
	}
	spec.MemoryMB = spec.CPUs << 12
	return milli
}

// sizeClass returns the index of a GPU count in a runFamily.
func sizeClass(milli int) int {
	switch {
	case milli <= 1000:
		return 0
	case milli <= 4000:
		return 1
	case milli <= 8000:
		return 2
	}
	return 3
}

// burst draws the number of jobs that a user submits at once. Together they request at most twice the fleet, unless
// it is one job.
func (d *regimeDraw) burst(n *regimeName) int {
	p := rhythms[d.regime.arrivals]
	if d.random.Float64() < p.singles {
		return 1
	}
	jobs := int(pareto(d.random, 2, max(3, p.most*float64(d.regime.Jobs)), p.alpha))
	return min(jobs, max(1, int(2000*float64(d.regime.GPUs())/(&Arrival{Spec: n.spec}).gpuMilli())))
}

// runtime draws the runtime of one job with a name.
func (d *regimeDraw) runtime(n *regimeName, spread float64) time.Duration {
	m := n.model
	log := n.mean + spread*d.random.NormFloat64()
	if n.broken || d.random.Float64() < (1-brokenShare)*m.short/(1-brokenShare*m.short) {
		log = truncatedNormal(d.random, m.shortMu, m.shortSigma, math.Log(5), math.Log(m.shortMost))
	}
	return time.Duration(math.Exp(min(max(log, math.Log(5)), math.Log(longestRun)))) * time.Second
}

// long draws ln(runtime) of a run that does not fail early.
func (m *runModel) long(random *rand.Rand) float64 {
	if random.Float64()*(1-m.short) < m.tail {
		return math.Log(pareto(random, m.tailFrom, max(longestRun, 1.01*m.tailFrom), m.alpha))
	}
	return truncatedNormal(random, m.mu, m.sigma, math.Log(m.shortMost), math.Log(m.tailFrom))
}

// pareto draws from a Pareto distribution between two bounds.
func pareto(random *rand.Rand, from, to, alpha float64) float64 {
	return from * math.Pow(1-random.Float64()*(1-math.Pow(from/to, alpha)), -1/alpha)
}

// truncatedNormal draws from a normal distribution between two bounds.
func truncatedNormal(random *rand.Rand, mu, sigma, from, to float64) float64 {
	share := func(x float64) float64 { return 0.5 * (1 + math.Erf((x-mu)/(sigma*math.Sqrt2))) }
	p := share(from) + random.Float64()*(share(to)-share(from))
	return min(max(mu+sigma*math.Sqrt2*math.Erfinv(2*p-1), from), to)
}

// shuffleRuns gives every job the runtime of a random job, so that nothing predicts it.
func (d *regimeDraw) shuffleRuns() {
	d.random.Shuffle(len(d.jobs), func(i, k int) { d.jobs[i].Runs, d.jobs[k].Runs = d.jobs[k].Runs, d.jobs[i].Runs })
}

// usualLimits are the time limits that users write, in minutes.
var usualLimits = []int{30, 60, 4 * 60, 12 * 60, 24 * 60, 2 * 24 * 60, 4 * 24 * 60, 7 * 24 * 60}

// setLimits gives the jobs their time limits. A simulation does not stop a job at its limit. A job whose limit is
// too short therefore gets the limit as its runtime.
func (d *regimeDraw) setLimits() {
	for i := range d.jobs {
		a := &d.jobs[i]
		switch d.regime.limits {
		case limitsNone:
		case limitsEqual:
			a.Spec.MaxRuntimeMinutes = usualLimits[len(usualLimits)-1]
		case limitsWrong:
			point, factor := d.random.Float64(), math.Exp(math.Log(50)*d.random.Float64())
			if point < 0.4 {
				continue
			}
			a.Spec.MaxRuntimeMinutes = usualLimits[len(usualLimits)-1]
			for _, limit := range usualLimits {
				if float64(limit*60) >= factor*a.Runs.Seconds() {
					a.Spec.MaxRuntimeMinutes = limit
					break
				}
			}
			if point > 0.98 && a.Runs > 2*time.Hour {
				a.Spec.MaxRuntimeMinutes = 60
				a.Runs = time.Hour
			}
		}
	}
}

// regimeTenant returns the name of a tenant.
func regimeTenant(i int) string { return "team-" + letters(i) }

// letters writes a number with letters. A forecast ignores the digits of a name.
func letters(n int) string {
	out := []byte{byte('a' + n%26)}
	for n /= 26; n > 0; n /= 26 {
		out = append(out, byte('a'+n%26))
	}
	return string(out)
}
