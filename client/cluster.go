package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateTenant creates a tenant.
func (c *Client) CreateTenant(ctx context.Context, t *apipb.Tenant) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).CreateTenant(ctx, &apipb.CreateTenantRequest{Tenant: t})
	})
	return answer.GetTenant(), err
}

// Tenant reads one tenant, with its current usage.
func (c *Client) Tenant(ctx context.Context, id string) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).GetTenant(ctx, &apipb.GetTenantRequest{TenantId: id})
	})
	return answer.GetTenant(), err
}

// pageSize is how many nodes or tenants are requested at a time.
const pageSize = 500

// Tenants lists all tenants, page by page.
func (c *Client) Tenants(ctx context.Context) (*apipb.ListTenantsResponse, error) {
	all := &apipb.ListTenantsResponse{}
	for req := (&apipb.ListTenantsRequest{PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListTenantsResponse, error) {
			return apipb.NewTenantServiceClient(conn).ListTenants(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Tenants, all.Total = append(all.Tenants, page.GetTenants()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// UpdateTenant changes the fields that are set in t and leaves all other fields
// unchanged. If t has quotas, they replace all old quotas of the tenant.
func (c *Client) UpdateTenant(ctx context.Context, id string, t *apipb.Tenant) (*apipb.Tenant, error) {
	return c.updateTenant(ctx, &apipb.UpdateTenantRequest{TenantId: id, Tenant: t})
}

// ClearTenantQuotas is like UpdateTenant, but removes all quotas.
func (c *Client) ClearTenantQuotas(ctx context.Context, id string, t *apipb.Tenant) (*apipb.Tenant, error) {
	return c.updateTenant(ctx, &apipb.UpdateTenantRequest{TenantId: id, Tenant: t, ClearQuotas: true})
}

func (c *Client) updateTenant(ctx context.Context, req *apipb.UpdateTenantRequest) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UpdateTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).UpdateTenant(ctx, req)
	})
	return answer.GetTenant(), err
}

// DeleteTenant deletes a tenant that has no live jobs.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteTenantResponse, error) {
		tries++
		return apipb.NewTenantServiceClient(conn).DeleteTenant(ctx, &apipb.DeleteTenantRequest{TenantId: id})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}

// Nodes lists all nodes, page by page.
func (c *Client) Nodes(ctx context.Context) (*apipb.ListNodesResponse, error) {
	all := &apipb.ListNodesResponse{}
	for req := (&apipb.ListNodesRequest{PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListNodesResponse, error) {
			return apipb.NewClusterServiceClient(conn).ListNodes(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Nodes, all.Total, all.Revision = append(all.Nodes, page.GetNodes()...), page.GetTotal(), page.GetRevision()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// Node reads one node.
func (c *Client) Node(ctx context.Context, id string) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetNode(ctx, &apipb.GetNodeRequest{NodeId: id})
	})
	return answer.GetNode(), err
}

// Cordon keeps new jobs off a node. The node's running jobs continue.
func (c *Client) Cordon(ctx context.Context, id, reason string) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CordonNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).CordonNode(ctx, &apipb.CordonNodeRequest{NodeId: id, Reason: reason})
	})
	return answer.GetNode(), err
}

// Uncordon allows new jobs on a node again.
func (c *Client) Uncordon(ctx context.Context, id string) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UncordonNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).UncordonNode(ctx, &apipb.UncordonNodeRequest{NodeId: id})
	})
	return answer.GetNode(), err
}

// Drain cordons a node and stops its running jobs, so that they restart on other
// nodes. If the argument `force` is true, Drain also stops at_most_once jobs.
// These jobs end with the outcome "lost".
func (c *Client) Drain(ctx context.Context, id, reason string, force bool) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DrainNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).DrainNode(ctx, &apipb.DrainNodeRequest{NodeId: id, Reason: reason, Force: force})
	})
	return answer.GetNode(), err
}

// ClusterStatus returns the numbers of nodes, devices and jobs in the cluster.
func (c *Client) ClusterStatus(ctx context.Context) (*apipb.GetClusterStatusResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetClusterStatusResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetClusterStatus(ctx, &apipb.GetClusterStatusRequest{})
	})
}

// ServerStatus returns the status of the server that answers.
func (c *Client) ServerStatus(ctx context.Context) (*apipb.GetServerStatusResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetServerStatusResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetServerStatus(ctx, &apipb.GetServerStatusRequest{})
	})
}

// RemoveNode declares that a machine is permanently gone, and returns how many
// of its seats were freed. If the argument `force` is true, RemoveNode also
// frees seats that may still be in use.
func (c *Client) RemoveNode(ctx context.Context, id string, force bool) (int, error) {
	tries := 0
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RemoveNodeResponse, error) {
		tries++
		return apipb.NewClusterServiceClient(conn).RemoveNode(ctx, &apipb.RemoveNodeRequest{NodeId: id, Force: force})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return 0, nil // an earlier try removed it, and its answer was lost
	}
	return int(answer.GetSeats()), err
}

// Ready returns nil if the server can accept requests.
func (c *Client) Ready(ctx context.Context) error {
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetReadyResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetReady(ctx, &apipb.GetReadyRequest{})
	})
	return err
}
