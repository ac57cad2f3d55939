package verdict

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Oracle O8 checks the GPU limits of tenants over all clusters. The loans of a tenant together never exceed its limit, at any revision of
// the hub's store, except while a restored hub asks its clusters what they have: meanwhile its records are not those by which the clusters
// act, and it lends nothing. Nor do the devices of its live processes, at any moment. A process counts from its first line to its last one, so less
// is counted than is used, and never more.
//
// A cluster that comes back brings what its own jobs already use: they are not stopped, so the sum may exceed the limit by that until
// they end. So its first loan after it was declared dead or had left does not count, as far as it has not been lowered since.
//
// A process counts only while its cluster is a member, and only if it was started while the cluster was one: a cluster that has just
// joined may still run what it started before, and one that left or was declared dead shares the limit no more.

func (j *judge) lent() {
	over, brought := map[string]bool{}, map[Loan]int{} // by tenant and cluster
	for _, state := range j.run.Loans {
		if state.Asking {
			continue
		}
		j.Totals.Lent++
		sums := map[string]int{}
		now := map[Loan]int{}
		for _, l := range state.Loans {
			id := Loan{Tenant: l.Tenant, Cluster: l.Cluster}
			was, known := brought[id]
			switch {
			case known && was >= 0:
				now[id] = min(was, l.GPUs)
			case l.GPUs > 0 && j.cameBack(l.Cluster, state.At):
				now[id] = l.GPUs
			case l.GPUs == 0:
				now[id] = -1 // it has not answered yet
			}
			sums[l.Tenant] += l.GPUs - max(0, now[id])
			if l.GPUs < 0 {
				j.wrong(WithinLoans, "", state.At, "the loan of tenant %s for cluster %s is %d at revision %d", l.Tenant, l.Cluster, l.GPUs, state.Revision)
			}
		}
		brought = now
		for tenant, limit := range j.run.Meta.Quotas {
			bad := sums[tenant] > limit
			if bad && !over[tenant] {
				j.wrong(WithinLoans, "", state.At, "tenant %s has a limit of %d GPUs, and %d are lent at revision %d: %v", tenant, limit, sums[tenant], state.Revision, state.Loans)
			}
			over[tenant] = bad
		}
	}
}

// cameBack reports whether a cluster was declared dead or had left before a time.
func (j *judge) cameBack(cluster string, at time.Duration) bool {
	return j.happened(Dead, cluster, 0, at) || j.happened(Left, cluster, 0, at)
}

// A `step` is a change of a tenant's use.
type step struct {
	at      time.Duration
	devices int // that are used more
	life    *life
	job     string
}

func (j *judge) used() {
	j.Totals.Most = map[string]int{}
	steps := map[string][]step{}
	tenants := j.tenants()
	for id, lives := range j.lives {
		tenant := tenants[id]
		if _, limited := j.run.Meta.Quotas[tenant]; !limited {
			continue
		}
		for _, l := range lives {
			until, counts := j.memberUntil(l.cluster, l.At)
			if until = min(until, l.last); counts && until > l.At {
				steps[tenant] = append(steps[tenant], step{l.At, l.devices, l, id}, step{until, -l.devices, l, id})
			}
		}
	}
	for tenant, all := range steps {
		slices.SortStableFunc(all, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.devices, b.devices)) })
		use, over := 0, false
		for _, s := range all {
			use += s.devices
			j.Totals.Most[tenant] = max(j.Totals.Most[tenant], use)
			bad := use > j.run.Meta.Quotas[tenant]
			if bad && !over {
				j.wrong(WithinLoans, s.job, s.at, "tenant %s has a limit of %d GPUs, and uses %d when rank %d starts in cluster %s", tenant, j.run.Meta.Quotas[tenant], use, s.life.Rank, s.life.cluster)
			}
			over = bad
		}
	}
}

// memberUntil reports whether a cluster was a member at a time, and until when it stayed one.
func (j *judge) memberUntil(cluster string, at time.Duration) (until time.Duration, is bool) {
	until = 1 << 62
	for _, e := range j.run.Meta.Events {
		if e.Cluster != cluster {
			continue
		}
		member := e.What == Joined || e.What == Back
		if !member && e.What != Left && e.What != Dead {
			continue
		}
		if e.At <= at {
			is = member
		} else if !member {
			until = min(until, e.At)
		}
	}
	return until, is
}

// tenants returns the tenant of each job.
func (j *judge) tenants() map[string]string {
	out := map[string]string{}
	for id, job := range j.hubJobs() {
		out[id] = job.Tenant
	}
	for _, one := range j.run.Clusters {
		for i := range one.Store {
			for _, e := range one.Store[i].Batch.Events {
				if e.Job != nil {
					out[string(e.Job.ID)] = cmp.Or(e.Job.Tenant, ares.DefaultTenant)
				}
			}
		}
	}
	return out
}
