package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ReportFormat is the version of the report format. The version changes when a program that reads
// the old version would misunderstand the new one.
const ReportFormat = "ares-sim-report/1"

// Reports contains the reports of all runs of one command, ordered by policy and seed.
type Reports struct {
	Format  string   `json:"format"`
	Version string   `json:"ares_version"`
	Runs    []Report `json:"runs"`
}

// Report is the result of a simulation. Times are in seconds, shares in
// percent.
type Report struct {
	Source    Source        `json:"source"`
	Jobs      int           `json:"jobs"`
	Refused   int           `json:"refused"` // jobs that can never run on this fleet
	Placed    int           `json:"placed"`
	Ended     int           `json:"ended"`
	LeftQueue int           `json:"quit,omitzero"` // jobs that left the queue at their timeout (max_queue_minutes)
	Virtual   float64       `json:"virtual_seconds"`
	GPUs      int           `json:"gpus"`
	Use       float64       `json:"gpu_use_percent"` // percentage of all GPU-seconds until the last event, or of the GPUs if no time passed
	Peak      float64       `json:"gpu_use_peak_percent"`
	Complete  *Distribution `json:"completion_seconds"` // from submission to end; nil if no job ended
	Wait      *Distribution `json:"waiting_seconds"`    // from submission to placement; nil if no job was placed
	// Delay is completion time minus runtime. The delay includes all waiting before the start and after preemptions,
	// and the cost of preemptions.
	Delay    *Distribution `json:"delay_seconds"`
	Deadline Deadlines     `json:"deadlines"`
	// Preempted is the number of preemptions. Lost is the cost of preemptions in GPU-seconds. It counts the time
	// during which devices were occupied while checkpoints were written. PreemptedMost is the largest number of
	// preemptions of one job.
	Preempted     int     `json:"preemptions"`
	PreemptedMost int     `json:"preemptions_most"`
	Lost          float64 `json:"lost_gpu_seconds"`
	ByGPUs        []Group `json:"by_gpu_count"` // 0, 1, 2-4, 5-8, 9+
	BySize        []Group `json:"by_size"`
	ByTenant      []Group `json:"by_tenant"`
	// WaitCDF contains the 0th, 1st, … 100th percentile of the placed jobs' waiting times.
	// CompleteCDF contains the same percentiles of the ended jobs' completion times.
	WaitCDF     []float64 `json:"waiting_cdf_seconds"`
	CompleteCDF []float64 `json:"completion_cdf_seconds"`
	// The fields below are set by Simulate.
	Stranded  float64    `json:"stranded_percent"` // of the fleet's GPUs, mean over time
	Fairness  *Fairness  `json:"fairness,omitempty"`
	Series    *Series    `json:"series,omitempty"`
	Occupancy *Occupancy `json:"occupancy,omitempty"`
}

// Source describes the input of a report. If two runs have the same trace, fleet, seed, resampling
// and end time, they differ only in their policy.
type Source struct {
	Trace    TraceSource  `json:"trace"`
	Fleet    FleetSource  `json:"fleet"`
	Policy   PolicySource `json:"policy"`
	Seed     uint64       `json:"seed"`
	Resample string       `json:"resample"`
	Until    float64      `json:"until_seconds"` // 0 for the end of the last job
	Halted   bool         `json:"halted"`        // the run was interrupted
}

// TraceSource identifies the trace that a report is based on.
type TraceSource struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	SHA256 string `json:"sha256"`
	Jobs   int    `json:"jobs"`
	Bad    int    `json:"bad_rows"`
	Idle   int    `json:"idle_rows"` // rows without work for a fleet
}

// FleetSource identifies the fleet that a report is based on.
type FleetSource struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Nodes  int    `json:"nodes"`
	GPUs   int    `json:"gpus"`
}

// PolicySource identifies the policy that a report is based on. It contains the digest of the engine's
// configuration.
type PolicySource struct {
	Name       string  `json:"name"`
	Engine     string  `json:"engine_config"`
	Estimate   string  `json:"estimate,omitzero"`
	Error      float64 `json:"estimate_error,omitzero"`
	Checkpoint int     `json:"checkpoint_seconds,omitzero"`
}

// Distribution summarizes a set of times. For an empty set of times the Distribution is nil.
type Distribution struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Deadlines counts the jobs with a deadline.
type Deadlines struct {
	Jobs   int `json:"jobs"`
	Met    int `json:"met"`
	Missed int `json:"missed"` // ended too late, or not ended and the deadline has passed
}

// Group contains the figures of all jobs of one size or tenant.
type Group struct {
	Name     string        `json:"name"`
	Jobs     int           `json:"jobs"`    // jobs that were placed
	Ended    int           `json:"ended"`   // placed jobs that ended
	Waiting  int           `json:"waiting"` // jobs that were not placed
	Complete *Distribution `json:"completion_seconds"`
	Wait     *Distribution `json:"waiting_seconds"`
	Delay    *Distribution `json:"delay_seconds"`

	Preempted     int     `json:"preemptions"`
	PreemptedMost int     `json:"preemptions_most"`
	Lost          float64 `json:"lost_gpu_seconds"`
}

// Report returns the results so far.
func (w *World) Report() Report {
	w.allocated.to(w.now, 0)
	r := Report{Jobs: len(w.jobs), Virtual: rounded(w.now.Sub(Epoch).Seconds()), GPUs: w.gpus}
	all := group{}
	counts, sizes, tenants := map[string]*group{}, map[string]*group{}, map[string]*group{}
	for i := range w.jobs {
		j := &w.jobs[i]
		r.Deadline.count(j, w.now)
		if j.refused {
			r.Refused++
		}
		if !j.leftQueue.IsZero() {
			r.LeftQueue++
		}
		wait, complete := time.Duration(-1), time.Duration(-1)
		if !j.placed.IsZero() {
			r.Placed++
			wait = j.placed.Sub(j.accepted)
		}
		if !j.ended.IsZero() {
			r.Ended++
			complete = j.ended.Sub(j.accepted)
		}
		for _, g := range []*group{&all, groupNamed(counts, countName(j.gpus)), groupNamed(sizes, sizeName(j.gpus)), groupNamed(tenants, j.tenant)} {
			g.add(j, wait, complete)
		}
	}
	r.Wait, r.Complete, r.Delay = distribution(all.waits), distribution(all.completes), distribution(all.delays)
	r.WaitCDF, r.CompleteCDF = cdf(all.waits), cdf(all.completes)
	r.ByGPUs, r.BySize, r.ByTenant = groups(counts), groups(sizes), groups(tenants)
	slices.SortFunc(r.ByGPUs, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) }) // sorting by the first digit is correct for these names
	if w.gpus > 0 {
		r.Use, r.Peak = w.allocated.use(w.gpus, r.Virtual)
	}
	r.Preempted, r.PreemptedMost, r.Lost = all.stops, all.most, rounded(float64(all.lost)/1000)
	return r
}

// GPUsNamed returns the group of jobs with the given name, such as 2-4. It returns nil if the report has no such
// group.
func (r *Report) GPUsNamed(name string) *Group {
	at := slices.IndexFunc(r.ByGPUs, func(g Group) bool { return g.Name == name })
	if at < 0 {
		return nil
	}
	return &r.ByGPUs[at]
}

// dropEmpty removes the distributions that contain no times. Older reports contain zeros for these
// distributions.
func (r *Report) dropEmpty() {
	dropEmptyDistribution(&r.Wait, r.Placed)
	dropEmptyDistribution(&r.Complete, r.Ended)
	dropEmptyDistribution(&r.Delay, r.Ended)
	for _, list := range [][]Group{r.ByGPUs, r.BySize, r.ByTenant} {
		for i := range list {
			dropEmptyDistribution(&list[i].Wait, list[i].Jobs)
			dropEmptyDistribution(&list[i].Complete, list[i].Ended)
			dropEmptyDistribution(&list[i].Delay, list[i].Ended)
		}
	}
}

func dropEmptyDistribution(s **Distribution, times int) {
	if times == 0 {
		*s = nil
	}
}

func (d *Deadlines) count(j *record, now time.Time) {
	due := j.deadline
	if due.IsZero() {
		return
	}
	d.Jobs++
	switch {
	case !j.ended.IsZero() && !j.ended.After(due):
		d.Met++
	case !j.ended.IsZero() || now.After(due):
		d.Missed++
	}
}

// This type collects the times of a group of jobs.
type group struct {
	waits, completes, delays []float64
	waiting, stops, most     int
	lost                     int64
}

func groupNamed(groups map[string]*group, name string) *group {
	if groups[name] == nil {
		groups[name] = &group{}
	}
	return groups[name]
}

func (g *group) add(j *record, wait, complete time.Duration) {
	g.stops, g.most, g.lost = g.stops+j.preemptions, max(g.most, j.preemptions), g.lost+j.lostMilli
	if wait < 0 {
		g.waiting++
		return
	}
	g.waits = append(g.waits, wait.Seconds())
	if complete >= 0 {
		g.completes = append(g.completes, complete.Seconds())
		g.delays = append(g.delays, (complete - j.runtime).Seconds())
	}
}

func groups(by map[string]*group) []Group {
	out := make([]Group, 0, len(by))
	for name, g := range by {
		out = append(out, Group{
			Name: name, Jobs: len(g.waits), Ended: len(g.completes), Waiting: g.waiting,
			Wait: distribution(g.waits), Complete: distribution(g.completes), Delay: distribution(g.delays),
			Preempted: g.stops, PreemptedMost: g.most, Lost: rounded(float64(g.lost) / 1000),
		})
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// countName returns the name of the group for a job's number of GPUs: 0, 1, 2-4, 5-8 or 9+.
func countName(milli int) string {
	switch gpus := (milli + 999) / 1000; {
	case gpus == 0:
		return "0"
	case gpus == 1:
		return "1"
	case gpus <= 4:
		return "2-4"
	case gpus <= 8:
		return "5-8"
	}
	return "9+"
}

// sizeName returns the name of the group for a job's size. The name is the number of GPUs, rounded up to a power of
// two. For more than 64 GPUs, the name is "more". A job without GPUs is in group 0.
func sizeName(milli int) string {
	gpus := (milli + 999) / 1000
	for _, most := range []int{0, 1, 2, 4, 8, 16, 32, 64} {
		if gpus <= most {
			return fmt.Sprint(most)
		}
	}
	return "more"
}
