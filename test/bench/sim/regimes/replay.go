package regimes

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/sim"
)

// These are the columns of a result: the policies under which each draw is replayed.
const (
	baseline = iota // FIFO + backfill
	judged
	bound       // shortest first with true durations
	tiresias    // preempts
	preemptible // the judged policy when every job allows preemption
	columns     // number of columns
)

const (
	checkpointSeconds = 30          // a preempted job holds its GPUs for this time
	leastRuntime      = time.Minute // of the bounded slowdown
)

// replayed has the figures of one replay.
type replayed struct {
	completion  float64 // mean, in seconds
	slowdown    float64 // p99 of the bounded slowdown
	delay       float64 // the longest delay of a job, in seconds
	preemptions int
	most        int // preemptions of one job
	classes     map[string]class
}

// class has the jobs with a similar number of GPUs.
type class struct {
	jobs  int
	total float64 // completion times, in seconds
}

// result has the replays of one regime, by column and seed.
type result struct {
	regime sim.Regime
	runs   [columns][]replayed
	err    error
	done   sync.WaitGroup
}

// replayAll replays every regime with every seed under every policy, on all processors. It returns at once: the
// field `done` of a result says when the result is complete.
func replayAll(regimes []sim.Regime, seeds int, policy sim.Policy) []*result {
	type task struct {
		of           *result
		column, seed int
	}
	var (
		out   = make([]*result, len(regimes))
		tasks = make(chan task)
		lock  sync.Mutex
	)
	for i := range out {
		out[i] = &result{regime: regimes[i]}
		for column := range columns {
			out[i].runs[column] = make([]replayed, seeds)
		}
		out[i].done.Add(columns * seeds)
	}
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for t := range tasks {
				got, err := replay(&t.of.regime, t.column, uint64(t.seed+1), policy) //nolint:gosec // seeds are small
				if err != nil {
					lock.Lock()
					t.of.err = err
					lock.Unlock()
				}
				t.of.runs[t.column][t.seed] = got
				t.of.done.Done()
			}
		}()
	}
	go func() {
		defer close(tasks)
		for _, r := range out {
			for seed := range seeds {
				for column := range columns {
					tasks <- task{r, column, seed}
				}
			}
		}
	}()
	return out
}

// replay replays one draw of a regime under the policy of a column.
func replay(r *sim.Regime, column int, seed uint64, policy sim.Policy) (replayed, error) {
	if name := map[int]string{baseline: "fifo-backfill", bound: "sjf-backfill", tiresias: "tiresias"}[column]; name != "" {
		var err error
		if policy, err = sim.PolicyNamed(name); err != nil {
			return replayed{}, err
		}
	}
	trace := r.Trace(seed)
	if column == tiresias || column == preemptible {
		policy.CheckpointSeconds = checkpointSeconds
		for i := range trace.Arrivals {
			trace.Arrivals[i].Spec.Checkpoint.Enabled = true
		}
	}
	w := sim.NewWorld(r.Fleet(), policy)
	if err := w.Run(trace, 0, nil); err != nil {
		return replayed{}, fmt.Errorf("%s, seed %d, %s: %w", r.Name, seed, policy.Name, err)
	}
	report := w.Report()
	if report.Ended != report.Jobs {
		return replayed{}, fmt.Errorf("%s, seed %d, %s: %d of %d jobs have ended", r.Name, seed, policy.Name, report.Ended, report.Jobs)
	}
	out := replayed{
		completion: report.Complete.Mean, slowdown: w.BoundedSlowdown(leastRuntime).P99, delay: report.Delay.Max,
		preemptions: report.Preempted, most: report.PreemptedMost, classes: map[string]class{},
	}
	for i := range report.ByGPUs {
		g := &report.ByGPUs[i]
		out.classes[g.Name] = class{g.Ended, g.Complete.Mean * float64(g.Ended)}
	}
	return out, nil
}

// figure returns one figure of every seed in a column.
func (r *result) figure(column int, of func(*replayed) float64) []float64 {
	out := make([]float64, len(r.runs[column]))
	for i := range out {
		out[i] = of(&r.runs[column][i])
	}
	return out
}

func completion(r *replayed) float64 { return r.completion }
func slowdown(r *replayed) float64   { return r.slowdown }
func delay(r *replayed) float64      { return r.delay }

// fewJobs is the number of jobs over all seeds below which a class says nothing.
const fewJobs = 20

// worstClass returns the class of GPU counts whose mean completion time over all seeds has the highest ratio to
// the baseline.
func (r *result) worstClass(column int) (name string, ratio float64) {
	sum := func(column int) map[string]class {
		out := map[string]class{}
		for i := range r.runs[column] {
			for name, c := range r.runs[column][i].classes {
				out[name] = class{out[name].jobs + c.jobs, out[name].total + c.total}
			}
		}
		return out
	}
	all, base := sum(column), sum(baseline)
	for _, n := range slices.Sorted(maps.Keys(base)) {
		if over := all[n].total / base[n].total; base[n].jobs >= fewJobs && over > ratio {
			name, ratio = n, over
		}
	}
	return name, ratio
}

// preemptions returns the number of preemptions over all seeds, and the most of one job.
func (r *result) preemptions(column int) (all, most int) {
	for i := range r.runs[column] {
		all, most = all+r.runs[column][i].preemptions, max(most, r.runs[column][i].most)
	}
	return all, most
}
