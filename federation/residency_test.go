package federation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
)

// TestResidency makes 10,000 random jobs whose specs name regions, clusters and data, and asks for offers in both ways
// in which a hub makes them: by the summaries of the clusters, and without them. No job may be offered to a cluster that it
// must not run in. Some clusters have no region, and some jobs were refused by clusters before.
func TestResidency(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 10))
	clusters, c := residencyClusters(r)
	by := map[string]*store.Cluster{}
	for i := range clusters {
		by[clusters[i].Name] = &clusters[i].Cluster
	}
	const jobs = 10_000
	offered, bound := 0, 0
	for done := 0; done < jobs; {
		batch, all := ares.Batch{At: residencyStart}, map[ares.JobID]*ares.Job{}
		runs := map[ares.JobID]*ares.Run{}
		for range min(250, jobs-done) {
			job, run := residencyJob(r, done, clusters)
			all[job.ID], runs[job.ID] = job, run
			batch.Events = append(batch.Events, ares.Event{Job: job}, ares.Event{Run: &ares.RunEvent{Job: job.ID, Run: *run}})
			done++
		}
		c.Apply(batch)
		for id, job := range all {
			for _, name := range federation.ChooseAny(job, runs[id], clusters) {
				if why := violation(job, runs[id], by[name]); why != "" {
					t.Fatalf("%+v may run in %+v: %s", job.Placement(), by[name], why)
				}
			}
		}
		for range 20 {
			made, _ := c.Decide(residencyStart.Add(time.Hour)) // late enough for offers ahead
			if len(made) == 0 {
				break
			}
			for i := range made {
				job, run := all[made[i].Job], runs[made[i].Job]
				for _, name := range made[i].Clusters() {
					if why := violation(job, run, by[name]); why != "" {
						t.Fatalf("%+v was offered to %+v: %s", job.Placement(), by[name], why)
					}
					if !federation.IsAllowed(job, run, by[name]) {
						t.Fatalf("%+v was offered to %+v, which IsAllowed refuses", job.Placement(), by[name])
					}
				}
				offered++
				if slices.ContainsFunc(job.Placement().Data, func(d ares.DataSet) bool { return d.Region != "" }) {
					bound++
				}
				delete(all, job.ID)
				c.Apply(gone(job.ID))
			}
		}
		for id := range all {
			c.Apply(gone(id))
		}
	}
	t.Logf("%d of %d jobs were offered, %d of them with data that must stay in its region", offered, jobs, bound)
	if offered < jobs/3 || bound < jobs/20 {
		t.Error("too few offers to mean anything")
	}
}

var residencyStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func gone(id ares.JobID) ares.Batch {
	return ares.Batch{At: residencyStart, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}}}}
}

// residencyClusters makes twelve clusters, three of them without a region, and a chooser that knows them.
func residencyClusters(r *rand.Rand) ([]federation.Candidate, *choose.Chooser) {
	c := choose.New(config.Default(), choose.Default())
	c.Apply(ares.Batch{Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "default", Limits: ares.NoLimits()}}}})
	var out []federation.Candidate
	for i := range 12 {
		cl := store.Cluster{Name: fmt.Sprintf("c%02d", i), Region: []string{"eu", "us", "ap", ""}[i%4], Decided: store.ClusterReady}
		out = append(out, federation.Candidate{Cluster: cl})
		nodes := 3 + r.IntN(12)
		c.SetCluster(choose.Cluster{Name: cl.Name, Region: cl.Region, Open: true, Summary: &summary.Summary{
			Shapes: []summary.Shape{{Type: summary.Type{Model: "H100", Devices: 8, CPUs: 64, MemoryMB: 1000}, Free: summary.Free{Devices: 8, CPUs: 64, MemoryMB: 1000}, Count: nodes}},
			Models: []summary.Model{{Name: "H100", Devices: 8 * nodes, Free: 8 * nodes, RuntimeMilli: 1000}},
		}}, residencyStart)
	}
	return out, c
}

// residencyJob makes a random job with its run.
func residencyJob(r *rand.Rand, number int, clusters []federation.Candidate) (*ares.Job, *ares.Run) {
	regions := []string{"eu", "us", "ap", "sa"}
	spec := ares.Spec{Tenant: "default", GPUs: 1 + r.IntN(8), Members: 1 + r.IntN(2)}
	p := spec.EditPlacement()
	for range r.IntN(3) {
		p.Data = append(p.Data, ares.DataSet{URI: "s3://x", Region: slices.Concat(regions, []string{""})[r.IntN(5)], Bytes: r.Int64N(1 << 42)})
	}
	for range r.IntN(3) * r.IntN(2) {
		p.Regions = append(p.Regions, regions[r.IntN(4)])
	}
	for range r.IntN(4) * r.IntN(2) {
		p.Clusters = append(p.Clusters, clusters[r.IntN(12)].Name)
	}
	job := &ares.Job{ID: ares.JobID(fmt.Sprintf("job-%05d", number)), Spec: spec.WithDefaults(), AcceptedAt: residencyStart, Revision: int64(number + 1)}
	run := ares.NewRun(residencyStart)
	if r.IntN(6) == 0 {
		run.ExcludedClusters = []string{clusters[r.IntN(12)].Name}
	}
	return job, &run
}

// The function `violation` is the test's own reading of the hard constraints: it returns the one that a cluster breaks.
func violation(job *ares.Job, run *ares.Run, c *store.Cluster) string {
	p := job.Placement()
	for _, d := range p.Data {
		if d.Region != "" && d.Region != c.Region {
			return "data must stay in " + d.Region
		}
	}
	switch {
	case len(p.Regions) > 0 && !slices.Contains(p.Regions, c.Region):
		return "its region is not listed"
	case len(p.Clusters) > 0 && !slices.Contains(p.Clusters, c.Name):
		return "it is not listed"
	case slices.Contains(run.ExcludedClusters, c.Name):
		return "it was excluded"
	}
	return ""
}
