package service

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// The method `descriptions` returns what the clusters of this hub say about themselves, by name.
func (d *clustersService) descriptions(ctx context.Context) (map[string]*apipb.ClusterDescription, error) {
	own, _, err := d.Trust.Store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	list, err := d.Trust.Store.ClusterMetadata(ctx, own.Store)
	return descriptionsIn(list), err
}

func descriptionsIn(list []store.ClusterMetadata) map[string]*apipb.ClusterDescription {
	out := map[string]*apipb.ClusterDescription{}
	for i := range list {
		m := &apipb.ClusterDescription{}
		if e := &list[i]; !e.ByHub && proto.Unmarshal([]byte(e.Value), m) == nil {
			out[e.Cluster] = m
		}
	}
	return out
}

// The method `copies` returns the clusters of this cluster's hub, by name, from this cluster's copy of what the hub said last.
// Without a hub there are none. Names of tenants of other clusters are not shown.
func (d *clustersService) copies(ctx context.Context) ([]*apipb.Cluster, error) {
	member, err := d.Trust.Store.Membership(ctx)
	if err != nil || member == nil {
		return nil, err
	}
	list, err := d.Trust.Store.ClusterMetadata(ctx, member.HubStore)
	if err != nil {
		return nil, err
	}
	at := member.HeardAt
	switch {
	case member.HubAnswers():
		at = pipeline.WholeMicros(d.Now())
	case at.IsZero():
		at = member.At
	}
	said := descriptionsIn(list)
	var out []*apipb.Cluster
	for i := range list {
		if !list[i].ByHub {
			continue
		}
		c, err := store.DecodeClusterCopy(list[i].Cluster, list[i].Value)
		if err != nil {
			d.Cfg.Log.Warn("the copy of what the hub says about a cluster cannot be read", "cluster", list[i].Cluster, "error", err)
			continue
		}
		m := d.cluster(ctx, &c)
		m.FederatedTenants, m.LocalTenants = nil, nil
		m.Description, m.CopiedAt = said[c.Name], apipb.Timestamp(at)
		out = append(out, m)
	}
	return out, nil
}

// The method `copyOf` returns one cluster of `copies`.
func (d *clustersService) copyOf(ctx context.Context, name string) (*apipb.Cluster, error) {
	list, err := d.copies(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(m *apipb.Cluster) bool { return m.GetName() == name })
	if i < 0 {
		return nil, store.NoCluster(name)
	}
	return list[i], nil
}
