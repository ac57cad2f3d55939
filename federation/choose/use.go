package choose

import (
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

func compareNames(a, b string) int { return strings.Compare(a, b) }

func setRequirement(operator string, clusters []string) string {
	return clusterZone + " " + operator + " (" + strings.Join(slices.Sorted(slices.Values(clusters)), ", ") + ")"
}

// charge adds the use of a job's run to its cluster, or removes it if `sign` is -1.
func (c *Chooser) charge(e *entry, sign int64) {
	if e.run == nil || e.job == nil || e.run.Cluster == "" {
		return
	}
	f, a := c.fleet(e.run.Cluster), e.run.Current()
	if f == nil || a == nil {
		return
	}
	u := f.granted[e.job.Tenant]
	for i := range a.Seats {
		s := &a.Seats[i]
		u.CPUs += sign * int64(s.CPUs)
		u.MemoryMB += sign * int64(s.Memory)
		for _, share := range s.Shares {
			u.GPUMilli += sign * int64(share.Milli)
		}
	}
	f.granted[e.job.Tenant] = u
}

func useJob(cluster, tenant string) ares.JobID { return ares.JobID("use/" + cluster + "/" + tenant) }

// localUse returns the events that let the fair order count the jobs which federated tenants submitted to a cluster
// itself. For each tenant, one job stands for them. Its run has the use that the summary reports, less that of the hub's
// own jobs, which count by themselves. A tenant that the summary does not name any more uses nothing there, and a tenant of the
// cluster's own that only has the same name does not count.
func (c *Chooser) localUse(f *fleet) (events []ares.Event) {
	if f.Summary == nil {
		return nil
	}
	named := map[string]bool{}
	for _, u := range f.Summary.Tenants {
		if !c.tenants[u.Tenant] || slices.Contains(f.LocalTenants, u.Tenant) {
			continue // it is not a tenant of the federation
		}
		named[u.Tenant] = true
		granted := f.granted[u.Tenant]
		f.granted[u.Tenant] = granted
		seat := ares.Seat{
			Node: "use/" + f.Name, CPUs: int(max(u.CPUs-granted.CPUs, 0)), Memory: int(max(u.MemoryMB-granted.MemoryMB, 0)), NUMA: -1,
			Shares: sharesOf(u.GPUMilli - granted.GPUMilli),
		}
		id := useJob(f.Name, u.Tenant)
		events = append(events,
			ares.Event{Job: &ares.Job{ID: id, Spec: ares.Spec{Tenant: u.Tenant}.WithDefaults()}},
			ares.Event{Run: &ares.RunEvent{Job: id, Run: placedRun([]ares.Seat{seat})}})
	}
	for _, tenant := range slices.Sorted(maps.Keys(f.granted)) {
		if !named[tenant] {
			events = append(events, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(useJob(f.Name, tenant))}})
		}
	}
	return events
}

// sharesOf returns the shares of an amount of devices. Each whole device is a share of its own, because limits count them.
func sharesOf(milli int64) (out []ares.Share) {
	for ; milli > 0; milli -= 1000 {
		out = append(out, ares.Share{Device: "all", Milli: int(min(milli, 1000))})
	}
	return out
}

// refreshTerms finds what follows from the terms of all clusters: the price of data that leaves each region, which is the
// highest price of a cluster there, and the tenants that not every cluster runs jobs for.
func (c *Chooser) refreshTerms() {
	c.egress, c.local = map[string]int64{}, map[string]bool{}
	for _, f := range c.fleets {
		if f.Summary != nil {
			c.egress[f.Region] = max(c.egress[f.Region], f.Summary.EgressMicros)
		}
		for _, tenant := range f.LocalTenants {
			c.local[tenant] = true
		}
	}
}

// NeedsOf returns the hard constraints in a job's spec. Data with a region must stay there. Data without a region can be
// read everywhere, so it costs nothing.
func NeedsOf(j *ares.Job) Needs {
	p := j.Placement()
	out := Needs{Regions: p.Regions, Clusters: p.Clusters}
	for _, d := range p.Data {
		out.Data = append(out.Data, Data{URI: d.URI, Home: d.Region, Bytes: d.Bytes, Resident: d.Region != ""})
	}
	return out
}
