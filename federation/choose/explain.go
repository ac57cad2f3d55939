package choose

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// Verdict says what the chooser thinks of one cluster for a job.
type Verdict struct {
	Cluster string
	Blocker string     // why the job cannot run there, "" if it can
	Best    *Candidate // on the model with the lowest cost; nil if it cannot run there
}

// String is the verdict in one sentence.
func (v Verdict) String() string {
	switch {
	case v.Best == nil:
		return v.Cluster + ": " + v.Blocker
	case v.Best.Fits:
		return fmt.Sprintf("%s: can start now, cost %s", v.Cluster, v.Best.Cost)
	}
	return fmt.Sprintf("%s: no free capacity, cost %s", v.Cluster, v.Best.Cost)
}

// Explain returns a verdict on every cluster, sorted by name. The job need not be one of the hub, so that a plan can be
// shown before a job is submitted.
func (c *Chooser) Explain(job *ares.Job) []Verdict {
	clear(c.ranked)
	e := c.jobs[job.ID]
	if e == nil || e.job == nil {
		e = &entry{job: job, needs: c.options.Needs(job), ask: requestOf(job)}
	}
	best := map[string]*Candidate{}
	for _, k := range c.candidates(e) {
		k.Fits = c.fleet(k.Cluster).place(&e.ask, k.Model) != nil
		if old := best[k.Cluster]; old == nil || k.Fits && !old.Fits {
			best[k.Cluster] = &k
		}
	}
	var out []Verdict
	for _, f := range c.fleets {
		v := Verdict{Cluster: f.Name, Best: best[f.Name]}
		switch {
		case v.Best != nil:
		case f.Summary == nil:
			v.Blocker = "it has sent no summary yet"
		case c.blocker(e, f) != "":
			v.Blocker = c.blocker(e, f)
		case !f.Open:
			v.Blocker = "it gets no offers now: it is not connected, cordoned, or its link is unstable"
		case e.ask.model != "":
			v.Blocker = fmt.Sprintf("it has no %d devices of model %s", (e.ask.milliGPUs()+999)/1000, ares.Clip(e.ask.model))
		default:
			v.Blocker = fmt.Sprintf("no model has %d devices there", (e.ask.milliGPUs()+999)/1000)
		}
		out = append(out, v)
	}
	return out
}
