package verdict

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// tokenBits is the part of a granted job's token that counts the attempts under the grant (F12).
const tokenBits = 16

// The method `split` gives each cluster's record the lines of the processes that ran on its nodes. The processes of a granted job know
// its token, and package check compares the fences of one store. So the tokens are replaced by the fences of the attempts to which the
// store gave them. A token that the store never gave stays, and check reports it. If a process has found another one alive and the job
// ran in another cluster at that time, the line is left out: oracle O7 judges such overlaps, and knows which are excused.
func (j *judge) split() {
	fences := map[string]map[string]map[int64]int64{} // by cluster, job and token
	for name, one := range j.run.Clusters {
		one.Witnesses = map[string][]trace.Witness{}
		fences[name] = fencesOf(one)
	}
	for id, lines := range j.run.Witnesses {
		for _, w := range lines {
			cluster := j.run.Meta.Nodes[w.Node]
			one := j.run.Clusters[cluster]
			if one == nil {
				j.wrong(check.CleanRecord, id, w.At, "a process wrote that it runs on %q, which is no node", w.Node)
				continue
			}
			j.Totals.Lines++
			if w.Verb == trace.Overlap && j.runsElsewhere(id, cluster, w.At) {
				continue
			}
			if fence, granted := fences[cluster][id][w.Fence]; granted {
				w.Fence = fence
			}
			one.Witnesses[id] = append(one.Witnesses[id], w)
		}
	}
}

func (j *judge) runsElsewhere(job, cluster string, at time.Duration) bool {
	return slices.ContainsFunc(j.lives[job], func(l *life) bool { return l.cluster != cluster && l.At <= at && at <= l.last })
}

// fencesOf returns the fences of the attempts of granted jobs, by job and token.
func fencesOf(r *trace.Run) map[string]map[int64]int64 {
	out, jobs := map[string]map[int64]int64{}, map[ares.JobID]*ares.Job{}
	for i := range r.Store {
		for k := range r.Store[i].Batch.Events {
			switch e := &r.Store[i].Batch.Events[k]; {
			case e.Job != nil:
				jobs[e.Job.ID] = e.Job
			case e.Run != nil:
				job := jobs[e.Run.Job]
				if job == nil || job.Origin == nil {
					continue
				}
				if out[string(job.ID)] == nil {
					out[string(job.ID)] = map[int64]int64{}
				}
				for n := range e.Run.Run.Attempts {
					a := &e.Run.Run.Attempts[n]
					if token := e.Run.Run.FencingToken(job, a); a.Fence != 0 && out[string(job.ID)][token] == 0 {
						out[string(job.ID)][token] = int64(a.Fence)
					}
				}
			}
		}
	}
	return out
}

// A `life` is what one process wrote: from its first line to its last.
type life struct {
	trace.Witness // the first line

	cluster string
	last    time.Duration
	devices int
}

// The method `gather` groups the lines of every job by process, those with the lowest token first.
func (j *judge) gather() {
	type key struct {
		token int64
		rank  int
		node  string
	}
	j.lives = map[string][]*life{}
	for id, lines := range j.run.Witnesses {
		known := map[key]*life{}
		for _, w := range lines {
			if j.run.Meta.Nodes[w.Node] == "" {
				continue // reported by split
			}
			k := key{w.Fence, w.Rank, w.Node}
			l := known[k]
			if l == nil {
				l = &life{Witness: w, cluster: j.run.Meta.Nodes[w.Node]}
				known[k] = l
				j.lives[id] = append(j.lives[id], l)
			}
			l.last = max(l.last, w.At)
			if w.Verb == trace.Started && w.Detail != "-" {
				l.devices = 1
				for _, c := range w.Detail {
					if c == ',' {
						l.devices++
					}
				}
			}
		}
		slices.SortStableFunc(j.lives[id], func(a, b *life) int {
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.At, b.At))
		})
	}
}
