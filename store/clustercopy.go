package store

import (
	"cmp"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// isDescribedAs reports whether administrators wrote the same about two states of a cluster.
func (c *Cluster) isDescribedAs(o *Cluster) bool {
	return c.Decided == o.Decided && c.Stops == o.Stops && c.StateSince.Equal(o.StateSince) && c.By == o.By && c.Reason == o.Reason &&
		c.Region == o.Region && maps.Equal(c.Labels, o.Labels) && maps.Equal(c.Prices, o.Prices) && c.CertifiedFrom == o.CertifiedFrom &&
		slices.Equal(c.FederatedTenants, o.FederatedTenants) && slices.Equal(c.LocalTenants, o.LocalTenants)
}

// EncodeClusterCopy returns the part of the hub's record of a cluster that its members keep too. It has no secrets, and nothing
// that changes with each session.
func EncodeClusterCopy(c *Cluster) (string, error) {
	return marshal(&storepb.Record{Body: &storepb.Record_Cluster{Cluster: &storepb.Cluster{
		State: string(c.Decided), StateSince: micros(c.StateSince), By: c.By, Reason: c.Reason, Stops: c.Stops,
		Region: c.Region, Labels: c.Labels, Prices: c.Prices, Version: c.Version, Unreachable: c.Unreachable, HealthSince: micros(c.HealthSince),
		Damped: c.Damped, RegisteredAt: micros(c.RegisteredAt), JoinedAt: micros(c.JoinedAt), CertifiedFrom: c.CertifiedFrom,
		FederatedTenants: c.FederatedTenants, LocalTenants: c.LocalTenants, Known: c.Known, Described: cmp.Or(c.Described, c.Revision),
	}}})
}

// DecodeClusterCopy reads what EncodeClusterCopy has written about the cluster with this name.
func DecodeClusterCopy(name, value string) (Cluster, error) {
	rec, err := unmarshal(clusterKey(name), []byte(value))
	switch {
	case err != nil:
		return Cluster{}, err
	case rec.GetCluster() == nil:
		return Cluster{}, ares.Errorf(ares.Invalid, "the copy of the hub's record of cluster %s has no such record", ares.Clip(name))
	}
	return clusterOf(rec.GetCluster(), name, 0), nil
}

// Recall takes over from a copy what this restored hub has lost: what administrators wrote about the cluster after the backup,
// if they did. The result counts as written now, so that it is later than every copy.
//
// A copy never decides whether the cluster is a member, or may own jobs: another copy may be later, and lost. So the copy of a
// cluster that was declared dead, or that has left, changes only its region, labels and prices; then, and if the copy is of an
// earlier join, a cluster of which the hub knows only the name stays cordoned. A drain ends as a cordon, because stopping jobs
// must not depend on a copy either.
func (c *Cluster) Recall(kept *Cluster) {
	lost := c.Described < kept.Described
	c.Described = c.read
	if !lost {
		return
	}
	c.Region, c.Labels, c.Prices = kept.Region, kept.Labels, kept.Prices
	if !c.MayOwn() || !kept.MayOwn() || kept.CertifiedFrom < c.CertifiedFrom {
		return
	}
	c.CertifiedFrom, c.JoinedAt, c.RegisteredAt = kept.CertifiedFrom, kept.JoinedAt, kept.RegisteredAt
	c.FederatedTenants, c.LocalTenants = kept.FederatedTenants, kept.LocalTenants
	c.Decided, c.StateSince, c.By, c.Reason, c.Stops = kept.Decided, kept.StateSince, kept.By, kept.Reason, false
	if kept.Decided == ClusterDraining {
		c.Decided = ClusterCordoned
	}
}
