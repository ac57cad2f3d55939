package choose

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Needs are the hard constraints of a job on clusters.
type Needs struct {
	Regions  []string // one of these; empty for any
	Clusters []string // one of these; empty for any
	Excluded []string // none of these
	// Left are the clusters that gave the job back lately: none of these, for a while.
	Left []ares.LeftCluster
	Data []Data
}

// Data is a data set that a job reads.
type Data struct {
	URI   string
	Home  string // the region where it is; "" if it can be read everywhere at no cost
	Bytes int64
	// Resident data must not leave its home: the job runs there.
	Resident bool
}

func (n *Needs) isEmpty() bool {
	return len(n.Regions)+len(n.Clusters)+len(n.Excluded)+len(n.Left)+len(n.Data) == 0
}

// RegionsAllowed returns the regions in which the job may run. It returns nil for any region, and an empty list that is
// not nil if resident data and regions contradict each other.
func (n *Needs) RegionsAllowed() []string {
	var allowed []string
	if len(n.Regions) > 0 {
		allowed = slices.Clone(n.Regions)
	}
	for _, d := range n.Data {
		switch {
		case !d.Resident || d.Home == "":
		case allowed == nil:
			allowed = []string{d.Home}
		default:
			allowed = slices.DeleteFunc(allowed, func(r string) bool { return r != d.Home })
		}
	}
	slices.Sort(allowed)
	return allowed
}

// Blockers returns why the job must not run in a cluster, or nil if it may. It checks the hard constraints of the job that do
// not depend on capacity, and is the only code that does: offers and explanations use it.
func (n *Needs) Blockers(c *Cluster) (out []Blocker) {
	if slices.Contains(n.Excluded, c.Name) {
		out = append(out, Blocker{Excluded, "it has another job with this ID"})
	}
	for _, l := range n.Left {
		if l.Cluster == c.Name {
			out = append(out, Blocker{GaveBack, "it has returned the job, which is not offered to it again before " + l.Until.UTC().Format(time.RFC3339)})
		}
	}
	if len(n.Clusters) > 0 && !slices.Contains(n.Clusters, c.Name) {
		out = append(out, Blocker{NotListed, "placement.clusters does not list it"})
	}
	if len(n.Regions) > 0 && !slices.Contains(n.Regions, c.Region) {
		out = append(out, Blocker{WrongRegion, "it is in " + whichRegion(c.Region) + ", which placement.regions does not list"})
	}
	for _, d := range n.Data {
		if d.Resident && d.Home != "" && d.Home != c.Region {
			out = append(out, Blocker{Residency, "the data " + ares.Clip(d.URI) + " must stay in region " + ares.Clip(d.Home) + ", and it is in " + whichRegion(c.Region)})
		}
	}
	return out
}

func whichRegion(region string) string {
	if region == "" {
		return "no region"
	}
	return "region " + ares.Clip(region)
}
