package sim

import "math"

// regimeFleet names the machines of a regime.
type regimeFleet string

// regimeMachines has the machines by the name of a fleet. The name is the number of nodes times the GPUs of a
// node.
var regimeMachines = map[regimeFleet][]Machine{
	"8x8":         {{Name: "n", Count: 8, GPUs: 8}},
	"16x8":        {{Name: "n", Count: 16, GPUs: 8}},
	"32x8":        {{Name: "n", Count: 32, GPUs: 8}},
	"64x8":        {{Name: "n", Count: 64, GPUs: 8}},
	"16x4":        {{Name: "n", Count: 16, GPUs: 4}},
	"32x4":        {{Name: "n", Count: 32, GPUs: 4}},
	"16x8+16x4":   {{Name: "large", Count: 16, GPUs: 8}, {Name: "small", Count: 16, GPUs: 4}},
	"three-types": {{Name: "a", Count: 10, GPUs: 8, Model: "A100"}, {Name: "v", Count: 8, GPUs: 8, Model: "V100"}, {Name: "t", Count: 16, GPUs: 2, Model: "T4"}},
}

// build returns the fleet. A node has enough cores and memory for every mix of jobs that fits its GPUs.
func (k regimeFleet) build() *Fleet {
	f := &Fleet{}
	for _, m := range regimeMachines[k] {
		m.CPUs, m.MemoryMB = openbCPUs[2]*m.GPUs*3, (openbCPUs[2]*m.GPUs*3)<<13
		f.Machines = append(f.Machines, m)
	}
	return f
}

// pool is a part of a fleet in which a job can run.
type regimePool struct {
	model      string
	node, gpus int // GPUs of the largest node, and of all nodes of that size
}

// pool returns the part of the fleet for jobs that name this model, or for all jobs if the model is "".
func (k regimeFleet) pool(model string) regimePool {
	p := regimePool{model: model}
	for _, m := range regimeMachines[k] {
		switch {
		case model != "" && m.Model != model:
		case m.GPUs > p.node:
			p.node, p.gpus = m.GPUs, m.Count*m.GPUs
		case m.GPUs == p.node && model == "" && m.Model == "":
			p.gpus += m.Count * m.GPUs
		}
	}
	return p
}

// models returns the GPU models of the fleet.
func (k regimeFleet) models() []string {
	var out []string
	for _, m := range regimeMachines[k] {
		if m.Model != "" {
			out = append(out, m.Model)
		}
	}
	return out
}

// sizeShare is the share of the jobs that request this many thousandths of GPUs.
type sizeShare struct {
	milli int
	share float64
}

// sizeMix names a mix of GPU counts.
type sizeMix string

// sizeMixes has the mixes by name. A regime leaves out the sizes that exceed its fleet.
var sizeMixes = map[sizeMix][]sizeShare{
	"openb":  openbSizes,
	"philly": phillySizes,
	"small":  {{1000, 0.70}, {2000, 0.20}, {4000, 0.10}},
	"train":  {{1000, 0.52}, {2000, 0.12}, {4000, 0.12}, {8000, 0.16}, {16_000, 0.05}, {32_000, 0.02}, {64_000, 0.01}},
	"odd":    {{1000, 0.50}, {3000, 0.12}, {5000, 0.08}, {6000, 0.10}, {8000, 0.10}, {12_000, 0.06}, {24_000, 0.04}},
	"gangs":  {{1000, 0.40}, {8000, 0.32}, {16_000, 0.16}, {32_000, 0.08}, {64_000, 0.03}, {128_000, 0.01}},
	"wide":   {{1000, 0.56}, {4000, 0.14}, {8000, 0.17}, {16_000, 0.06}, {32_000, 0.03}, {64_000, 0.025}, {128_000, 0.01}, {256_000, 0.005}},
}

// runFamily names the runtimes of a regime.
type runFamily string

// runFamilies has the runtime distributions of jobs with 1, 2 to 4, 5 to 8, and more GPUs.
var runFamilies = map[runFamily][4]runModel{
	"philly": phillyRuns,
	// Many runs of minutes, as in continuous integration and inference batches.
	"batch": same(runModel{short: 0.10, shortMu: math.Log(40), shortSigma: 0.6, shortMost: 120, mu: math.Log(1200), sigma: 1.2, tail: 0.03, tailFrom: 4 * 3600, alpha: 1.3}),
	// Runs of hours, some of them of days.
	"training": same(runModel{short: 0.20, shortMu: math.Log(90), shortSigma: 0.8, shortMost: 300, mu: math.Log(2.5 * 3600), sigma: 1.4, tail: 0.04, tailFrom: 24 * 3600, alpha: 1.2}),
	// Most of the work is in a few jobs.
	"heavy": same(runModel{short: 0.15, shortMu: math.Log(60), shortSigma: 0.8, shortMost: 240, mu: math.Log(600), sigma: 1.3, tail: 0.08, tailFrom: 2 * 3600, alpha: 0.8}),
	// Two kinds of runs, with nothing between them.
	"bimodal": same(runModel{short: 0.60, shortMu: math.Log(120), shortSigma: 0.5, shortMost: 900, mu: math.Log(5 * 3600), sigma: 0.6, tail: 0.02, tailFrom: 16 * 3600, alpha: 2}),
	// All runs are alike, so that no order can gain much.
	"alike": same(runModel{short: 0.02, shortMu: math.Log(120), shortSigma: 0.4, shortMost: 300, mu: math.Log(3600), sigma: 0.3, tail: 0.01, tailFrom: 2 * 3600, alpha: 4}),
}

func same(m runModel) [4]runModel { return [4]runModel{m, m, m, m} }

// longestRun is the longest runtime in seconds. Many clusters stop jobs after some days.
const longestRun = 6 * 24 * 3600

// arrivalPattern names the times at which jobs arrive.
type arrivalPattern string

// rhythm describes an arrival pattern.
type rhythm struct {
	hours, weekdays bool    // the rate follows the hours and the weekdays of Philly
	daySigma        float64 // deviation of the logarithm of a day's rate
	singles         float64 // share of the bursts with one job
	alpha           float64 // exponent of the sizes of other bursts
	most            float64 // the largest burst, as a share of all jobs
}

// rhythms has the arrival patterns by name.
var rhythms = map[arrivalPattern]rhythm{
	"steady": {singles: 1},
	"daily":  {hours: true, singles: 0.9, alpha: 1.5, most: 0.02},
	"weekly": {hours: true, weekdays: true, daySigma: 0.3, singles: 0.9, alpha: 1.5, most: 0.02},
	"philly": {hours: true, weekdays: true, daySigma: phillyDaySigma, singles: phillySingles, alpha: phillyBurstAlpha, most: 0.04},
	"sweeps": {hours: true, singles: 0.5, alpha: 0.9, most: 0.05},
	"flood":  {weekdays: true, daySigma: 1, singles: 0.3, alpha: 0.6, most: 0.10},
}

// userHabits names how users repeat their jobs.
type userHabits string

// habits describes users.
type habits struct {
	users  int
	repeat float64 // share of the sessions that run a job under a name of earlier sessions
	spread float64 // deviation of ln(runtime) between runs of one name
	drift  float64 // change of the mean of ln(runtime) of a name from session to session
	late   float64 // share of the users that submit nothing at first
}

// habitKinds has the kinds of users by name.
var habitKinds = map[userHabits]habits{
	"regular": {users: 12, repeat: 0.95, spread: 0.3},
	"mixed":   {users: 30, repeat: 0.75, spread: 0.5, late: 0.3},
	"churn":   {users: 60, repeat: 0.55, spread: 0.5, late: 0.6},
	"drift":   {users: 16, repeat: 0.90, spread: 0.3, drift: 0.15},
	"noisy":   {users: 20, repeat: 0.90, spread: 1},
}

// limitHabit names the time limits that users give.
type limitHabit string

// These are the kinds of time limits.
const (
	limitsNone  limitHabit = "none"
	limitsEqual limitHabit = "equal" // every job has the longest limit
	// Two fifths of the jobs have no limit. Other limits are up to 50 times too long, and one of 50 is
	// too short: the job then ends at its limit.
	limitsWrong limitHabit = "wrong"
)

// queueNames are the queues of every tenant.
var queueNames = [2]string{"prod", "research"}
