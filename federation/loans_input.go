package federation

import (
	"context"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/loan"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
)

// tenantLoans is everything that decides about the loans of one tenant.
type tenantLoans struct {
	tenant   *ares.Tenant // nil if it was deleted
	id       string
	clusters map[string]*clusterLoan
	wants    []loan.Want
	seconds  map[string]int64 // GPU-seconds that clusters should have; the others stay as they are
}

// clusterLoan is what the leader knows of one tenant in one cluster.
type clusterLoan struct {
	used    int // by jobs of the hub, as far as the hub knows
	waiting int // for jobs of the hub that the cluster owns
	hours   clusterHours
}

func (in *tenantLoans) cluster(name string) *clusterLoan {
	if in.clusters[name] == nil {
		in.clusters[name] = &clusterLoan{}
	}
	return in.clusters[name]
}

// loanInput returns the tenants for which something has to be decided or told, with the clusters that run their jobs: those that
// have the tenant, and those that have an offer, a job or a loan. The other clusters do not learn of the tenant.
func (t *term) loanInput() map[string]*tenantLoans {
	out := map[string]*tenantLoans{}
	of := func(id string) *tenantLoans {
		if out[id] == nil {
			out[id] = &tenantLoans{tenant: t.view.Tenant(id), id: id, clusters: map[string]*clusterLoan{}}
		}
		return out[id]
	}
	for tenant, loans := range t.lending.records { // order-free: sets
		for cluster := range loans { // order-free: a set
			of(tenant).cluster(cluster)
		}
	}
	federated := map[string][]string{} // read first: the view must not be asked under the term's lock
	t.mu.Lock()
	for name := range t.clusters { // order-free: sets
		federated[name] = t.clusters[name].FederatedTenants
	}
	t.mu.Unlock()
	for name, tenants := range federated { // order-free: sets
		for _, id := range tenants {
			if t.view.Tenant(id) != nil {
				of(id).cluster(name)
			}
		}
	}
	t.Hub.mu.Lock()
	grants := slices.Collect(maps.Values(t.grants))
	t.Hub.mu.Unlock()
	for _, g := range grants {
		if e := t.view.Job(g.Job); e != nil {
			of(e.Job.Tenant).addGrant(e, g)
		}
	}
	return out
}

// addGrant adds what a job uses in its cluster, or what it needs in one of the clusters that may get it.
func (in *tenantLoans) addGrant(e *entry, g *ares.Grant) {
	asks := e.Job.Asks()
	gpus := wholeGPUs(asks)
	switch {
	case g.State == ares.GrantOffered:
		for _, name := range g.Clusters {
			in.cluster(name)
		}
		in.wants = append(in.wants, loan.Want{Clusters: g.Clusters, GPUs: gpus, Since: e.Job.AcceptedAt, ID: string(e.Job.ID)})
	case e.Run.Current() != nil:
		in.cluster(g.Cluster).used += gpus
	case e.Run.Phase.Waiting():
		in.cluster(g.Cluster).waiting += gpus
		in.wants = append(in.wants, loan.Want{Clusters: []string{g.Cluster}, GPUs: gpus, Since: e.Job.AcceptedAt, ID: string(e.Job.ID)})
	}
}

// quota returns the tenant's limit for all clusters together.
func (in *tenantLoans) quota() int {
	if in.tenant == nil {
		return ares.Unlimited
	}
	return in.tenant.Limits.GPUs
}

// loanClusters returns the clusters between which the limit is divided, sorted by name. A connected cluster without a loan gets
// its first one, which asks it what it uses. While such an answer is missing, the result `settled` is false: nothing may be
// raised, because what these clusters use is not known. A cluster that does not answer for as long as a silent one is not waited
// for: it must not keep the tenant's jobs in all clusters from starting.
func (t *term) loanClusters(ctx context.Context, in *tenantLoans) (out []loan.Cluster, settled bool, err error) {
	settled = true
	for _, name := range slices.Sorted(maps.Keys(in.clusters)) {
		t.mu.Lock()
		s := t.sessions[name]
		c := t.clusters[name]
		open := s != nil && s.open && c.Incarnation == s.hello.Incarnation
		keeps := open && s.info.GetKeepsLoans()
		r, lent := t.lending.records[in.id][name]
		lc := loan.Cluster{Name: name, Closed: c.Decided != store.ClusterReady, Loan: r.GPUs}
		overdue := false
		in.cluster(name).hours = clusterHours{known: r.Hours, keeps: keeps && s.info.GetKeepsHours()}
		if open {
			in.addSummary(&lc, s)
			told := s.lent[in.id]
			overdue = told.version == r.Revision && time.Since(told.first) >= grant.Missed*t.Heartbeat
		}
		if h := &in.cluster(name).hours; open && h.keeps {
			h.read(in.id, s, t.month())
			h.awaited = !h.confirmed && (!lent || !overdue)
		}
		t.mu.Unlock()
		switch {
		case keeps && !lent:
			r, err = t.Store.Lend(ctx, t.lead, store.Loan{Tenant: in.id, Cluster: name, Fresh: true})
			if err != nil {
				return nil, false, t.lendingFailed(err)
			}
			t.lending.set(r)
			lc.Fixed, settled = true, false
		case keeps && r.Fresh:
			lc.Fixed, settled = true, settled && overdue
		case keeps:
		case lent: // a silent cluster keeps its loan
			lc.Fixed = true
		default: // a cluster of the version before this one, or one that was not heard yet
			lc.Fixed, lc.Loan = true, lc.Used
		}
		out = append(out, lc)
	}
	return out, settled, nil
}

// addSummary adds what a member has reported: its capacity, what the tenant uses there, and what the tenant's own jobs of this
// cluster wait for. The caller holds the term's lock.
func (in *tenantLoans) addSummary(lc *loan.Cluster, s *session) {
	known := in.clusters[lc.Name]
	lc.Used = known.used
	if s.decoded == nil {
		return
	}
	for _, m := range s.decoded.Models {
		lc.Capacity, lc.Free = lc.Capacity+m.Devices, lc.Free+m.Free
	}
	for _, u := range s.decoded.Tenants {
		if u.Tenant != in.id {
			continue
		}
		lc.Used = max(lc.Used, devices(u.GPUMilli))
		local := devices(u.WaitingMilli) - known.waiting
		if local <= 0 {
			break
		}
		in.addLocal(lc, &u, local)
	}
}

// addLocal adds the wants of jobs that were submitted to a cluster. The hub does not know why they wait. So the largest one is a
// want only while the loan has no room for it: if it waits all the same, something else keeps it, and it must not keep the loan
// from others. The smaller ones want no more than what is free there.
func (in *tenantLoans) addLocal(lc *loan.Cluster, u *summary.TenantUse, local int) {
	here, largest := []string{lc.Name}, min(devices(u.LargestMilli), local)
	if lc.Loan-lc.Used < largest {
		in.wants = append(in.wants, loan.Want{Clusters: here, GPUs: largest, Since: u.Since, ID: "local/" + lc.Name})
		local -= largest
	}
	if rest := min(local, lc.Free); rest > 0 {
		in.wants = append(in.wants, loan.Want{Clusters: here, GPUs: rest, Since: u.Since, ID: "local/" + lc.Name, Parts: true})
	}
}

func devices(milli int64) int { return int((milli + 999) / 1000) }
