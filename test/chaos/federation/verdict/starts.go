package verdict

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
)

// Oracle O7 checks where the jobs of the hub were started. A grant, which is known by its epoch in the token, belongs to one cluster.
// A job may be started under a second grant only if the first one has ended: its cluster has returned the job, was declared dead, or was
// restored, or the hub was. A job with the policy fence may also move after its cluster was silent for too long; its owner must have
// stopped it before. Whatever the reason, two clusters never run the job at the same time. If a cluster was declared dead that still
// lived, overlaps with what it ran under its old grants are excused. An at_most_once job is not started under a second grant, unless a
// restore has forgotten that it was started.

// A `tenure` is what happened to a job under one grant.
type tenure struct {
	epoch       int64
	cluster     string
	first, last time.Duration
}

// tenuresOf groups the processes of a granted job by grant.
func (j *judge) tenuresOf(id string) []*tenure {
	var out []*tenure
	for _, l := range j.lives[id] {
		epoch := l.Fence >> tokenBits
		n := len(out)
		if n == 0 || out[n-1].epoch != epoch || out[n-1].cluster != l.cluster {
			out = append(out, &tenure{epoch, l.cluster, l.At, l.last})
			continue
		}
		out[n-1].first, out[n-1].last = min(out[n-1].first, l.At), max(out[n-1].last, l.last)
	}
	return out
}

func (j *judge) oneCluster() {
	returned := j.returned()
	for id, job := range j.hubJobs() {
		all := j.tenuresOf(id)
		if len(all) == 0 {
			continue
		}
		j.Totals.Granted++
		j.Totals.Grants += len(all)
		if slices.ContainsFunc(all, func(t *tenure) bool { return t.cluster != all[0].cluster }) {
			j.Totals.Moved++
		}
		for i, old := range all {
			for _, now := range all[i+1:] {
				j.compare(job, old, now, returned[grantOf{id, old.epoch}])
			}
		}
	}
}

// The method `compare` checks a job's processes under two grants, of which the first is the older one.
func (j *judge) compare(job *ares.Job, old, now *tenure, returned bool) {
	id := string(job.ID)
	forgotten := j.happened(Restored, old.cluster, 0, now.first) || j.happened(Restored, Hub, 0, now.first)
	switch {
	case old.epoch == now.epoch:
		j.wrong(OneCluster, id, now.first, "clusters %s and %s both started it under the grant %d", old.cluster, now.cluster, old.epoch)
	case !returned && !forgotten && !j.happened(Dead, old.cluster, 0, max(now.first, old.first)) && job.Placement().OnPartition != ares.PartitionFence:
		j.wrong(OneCluster, id, now.first, "cluster %s started it under the grant %d and cluster %s under %d, and nothing has ended the first grant", old.cluster, old.epoch, now.cluster, now.epoch)
	case job.Mode == ares.AtMostOnce && !forgotten:
		j.wrong(OneCluster, id, now.first, "it is an at_most_once job, and was started under the grants %d in %s and %d in %s", old.epoch, old.cluster, now.epoch, now.cluster)
	}
	if now.first <= old.last && old.cluster != now.cluster {
		v := j.violation(OneCluster, id, now.first, "it ran in cluster %s until %.3fs (grant %d), and in cluster %s from %.3fs on (grant %d)",
			old.cluster, (old.last - j.start).Seconds(), old.epoch, now.cluster, (now.first - j.start).Seconds(), now.epoch)
		j.overlap(v, old, now)
	}
}

// The method `overlap` reports two grants whose processes overlap or come in the wrong order, unless the older one was that of a living
// cluster that was declared dead.
func (j *judge) overlap(v check.Violation, old, now *tenure) {
	if j.happenedAlive(Dead, old.cluster, max(now.first, old.first)) {
		v.Text += " (excused: the first of them was declared dead while it lived)"
		j.Excused = append(j.Excused, v)
		return
	}
	j.Federation = append(j.Federation, v)
}

// The method `happened` reports whether something happened to a cluster in a time.
func (j *judge) happened(what What, cluster string, after, before time.Duration) bool {
	return slices.ContainsFunc(j.run.Meta.Events, func(e Event) bool {
		return e.What == what && e.Cluster == cluster && e.At >= after && e.At <= before
	})
}

func (j *judge) happenedAlive(what What, cluster string, before time.Duration) bool {
	return slices.ContainsFunc(j.run.Meta.Events, func(e Event) bool {
		return e.What == what && e.Cluster == cluster && e.Alive && e.At <= before
	})
}

// hubJobs returns the jobs that the hub or a cluster knew as jobs of the hub.
func (j *judge) hubJobs() map[string]*ares.Job {
	out := map[string]*ares.Job{}
	for i := range j.run.Hub.Store {
		for _, e := range j.run.Hub.Store[i].Batch.Events {
			if e.Job != nil {
				out[string(e.Job.ID)] = e.Job
			}
		}
	}
	for _, one := range j.run.Clusters {
		for i := range one.Store {
			for _, e := range one.Store[i].Batch.Events {
				if e.Job != nil && e.Job.Origin != nil && out[string(e.Job.ID)] == nil {
					out[string(e.Job.ID)] = e.Job
				}
			}
		}
	}
	return out
}

type grantOf struct {
	job   string
	epoch int64
}

// The method `returned` lists the grants under which a cluster has given a job back.
func (j *judge) returned() map[grantOf]bool {
	out := map[grantOf]bool{}
	for _, one := range j.run.Clusters {
		epochs := map[ares.JobID]int64{}
		for i := range one.Store {
			for _, e := range one.Store[i].Batch.Events {
				switch {
				case e.Job != nil && e.Job.Origin != nil:
					epochs[e.Job.ID] = e.Job.Origin.Epoch
				case e.Run != nil && e.Run.Run.Phase == ares.Returned:
					out[grantOf{string(e.Run.Job), epochs[e.Run.Job]}] = true
				}
			}
		}
	}
	return out
}

// Oracle O9 checks that the fencing tokens of a job only grow, over all clusters: a process that starts later has a token that is not
// lower. A receiver that rejects lower tokens then rejects every process but the latest. A living cluster that was declared dead may
// still start what it owned; such starts are excused.
func (j *judge) tokens() {
	granted := j.hubJobs()
	for id, lives := range j.lives {
		inTime := slices.Clone(lives)
		slices.SortStableFunc(inTime, func(a, b *life) int { return cmp.Compare(a.At, b.At) })
		var highest *life
		for _, l := range inTime {
			if highest != nil && l.Fence < highest.Fence {
				v := j.violation(TokensGrow, id, l.At, "a process in cluster %s started with the token %d after one in cluster %s with %d", l.cluster, l.Fence, highest.cluster, highest.Fence)
				if granted[id] == nil {
					j.Federation = append(j.Federation, v)
				} else {
					j.overlap(v, &tenure{cluster: l.cluster, first: l.At}, &tenure{first: highest.At})
				}
				continue
			}
			highest = l
		}
	}
}
