package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// RegisterCluster lets a cluster join a hub, and returns a join token for it. If its answer is lost, the next call makes
// another token, and only the last one is valid.
func (c *Client) RegisterCluster(ctx context.Context, req *apipb.RegisterClusterRequest) (*apipb.RegisterClusterResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RegisterClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).RegisterCluster(ctx, req)
	})
}

// Clusters lists the clusters of a hub.
func (c *Client) Clusters(ctx context.Context) (*apipb.ListClustersResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListClustersResponse, error) {
		return apipb.NewClustersServiceClient(conn).ListClusters(ctx, &apipb.ListClustersRequest{})
	})
}

// Cluster returns one cluster of a hub.
func (c *Client) Cluster(ctx context.Context, name string) (*apipb.Cluster, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).GetCluster(ctx, &apipb.GetClusterRequest{Name: name})
	})
	return answer.GetCluster(), err
}

// CordonCluster stops offers to a cluster.
func (c *Client) CordonCluster(ctx context.Context, name, reason string) (*apipb.Cluster, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CordonClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).CordonCluster(ctx, &apipb.CordonClusterRequest{Name: name, Reason: reason})
	})
	return answer.GetCluster(), err
}

// UncordonCluster ends a cordon or a drain.
func (c *Client) UncordonCluster(ctx context.Context, name string) (*apipb.Cluster, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UncordonClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).UncordonCluster(ctx, &apipb.UncordonClusterRequest{Name: name})
	})
	return answer.GetCluster(), err
}

// DrainCluster cordons a cluster and asks it to return the jobs that wait there. With `stop`, the jobs that run there are stopped
// and returned too.
func (c *Client) DrainCluster(ctx context.Context, name, reason string, stop bool) (*apipb.Cluster, error) {
	ask := &apipb.DrainClusterRequest{Name: name, Reason: reason, Stop: stop}
	if stop {
		ask.Confirm = name
	}
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DrainClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).DrainCluster(ctx, ask)
	})
	return answer.GetCluster(), err
}

// DeclareClusterDead takes every job away from a cluster that is gone for good.
func (c *Client) DeclareClusterDead(ctx context.Context, name, reason string) (*apipb.Cluster, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeclareClusterDeadResponse, error) {
		return apipb.NewClustersServiceClient(conn).DeclareClusterDead(ctx, &apipb.DeclareClusterDeadRequest{Name: name, Confirm: name, Reason: reason})
	})
	return answer.GetCluster(), err
}

// LeaveCluster ends the membership of a cluster, at the hub.
func (c *Client) LeaveCluster(ctx context.Context, name string) (*apipb.Cluster, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.LeaveClusterResponse, error) {
		return apipb.NewClustersServiceClient(conn).LeaveCluster(ctx, &apipb.LeaveClusterRequest{Name: name})
	})
	return answer.GetCluster(), err
}

// Membership returns the hub that a cluster has joined, or nil.
func (c *Client) Membership(ctx context.Context) (*apipb.Membership, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetMembershipResponse, error) {
		return apipb.NewClustersServiceClient(conn).GetMembership(ctx, &apipb.GetMembershipRequest{})
	})
	return answer.GetMembership(), err
}

// JoinHub joins a cluster to a hub. Repeating the request after a lost answer joins it once.
func (c *Client) JoinHub(ctx context.Context, req *apipb.JoinHubRequest) (*apipb.Membership, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.JoinHubResponse, error) {
		return apipb.NewClustersServiceClient(conn).JoinHub(ctx, req)
	})
	return answer.GetMembership(), err
}

// LeaveHub ends the membership of a cluster, in the cluster.
func (c *Client) LeaveHub(ctx context.Context) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.LeaveHubResponse, error) {
		tries++
		return apipb.NewClustersServiceClient(conn).LeaveHub(ctx, &apipb.LeaveHubRequest{})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try ended it, and its answer was lost
	}
	return err
}
