package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateTenant makes a tenant.
func (c *Client) CreateTenant(ctx context.Context, t *apipb.Tenant) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).CreateTenant(ctx, &apipb.CreateTenantRequest{Tenant: t})
	})
	return answer.GetTenant(), err
}

// Tenant reads one tenant, with what its jobs hold now.
func (c *Client) Tenant(ctx context.Context, id string) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).GetTenant(ctx, &apipb.GetTenantRequest{TenantId: id})
	})
	return answer.GetTenant(), err
}

// pageSize is how many nodes or tenants are asked for at a time.
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

// UpdateTenant changes the fields that are set in t and keeps the others. Its
// quotas, if there are any, replace those before.
func (c *Client) UpdateTenant(ctx context.Context, id string, t *apipb.Tenant) (*apipb.Tenant, error) {
	return c.updateTenant(ctx, &apipb.UpdateTenantRequest{TenantId: id, Tenant: t})
}

// ClearTenantQuotas is UpdateTenant that removes all quotas.
func (c *Client) ClearTenantQuotas(ctx context.Context, id string, t *apipb.Tenant) (*apipb.Tenant, error) {
	return c.updateTenant(ctx, &apipb.UpdateTenantRequest{TenantId: id, Tenant: t, ClearQuotas: true})
}

func (c *Client) updateTenant(ctx context.Context, req *apipb.UpdateTenantRequest) (*apipb.Tenant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UpdateTenantResponse, error) {
		return apipb.NewTenantServiceClient(conn).UpdateTenant(ctx, req)
	})
	return answer.GetTenant(), err
}

// DeleteTenant removes a tenant that has no live jobs.
func (c *Client) DeleteTenant(ctx context.Context, id string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteTenantResponse, error) {
		tries++
		return apipb.NewTenantServiceClient(conn).DeleteTenant(ctx, &apipb.DeleteTenantRequest{TenantId: id})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try did it, and its answer was lost
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

// Cordon keeps new work off a node; what runs there goes on.
func (c *Client) Cordon(ctx context.Context, id, reason string) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CordonNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).CordonNode(ctx, &apipb.CordonNodeRequest{NodeId: id, Reason: reason})
	})
	return answer.GetNode(), err
}

// Uncordon lets a node have new work again.
func (c *Client) Uncordon(ctx context.Context, id string) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UncordonNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).UncordonNode(ctx, &apipb.UncordonNodeRequest{NodeId: id})
	})
	return answer.GetNode(), err
}

// Drain cordons a node and has what runs there moved to other nodes; with force
// also at_most_once jobs, which end as lost.
func (c *Client) Drain(ctx context.Context, id, reason string, force bool) (*apipb.Node, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DrainNodeResponse, error) {
		return apipb.NewClusterServiceClient(conn).DrainNode(ctx, &apipb.DrainNodeRequest{NodeId: id, Reason: reason, Force: force})
	})
	return answer.GetNode(), err
}

// ClusterStatus counts nodes, devices and jobs.
func (c *Client) ClusterStatus(ctx context.Context) (*apipb.GetClusterStatusResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetClusterStatusResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetClusterStatus(ctx, &apipb.GetClusterStatusRequest{})
	})
}

// ServerStatus tells how the server that answers fares.
func (c *Client) ServerStatus(ctx context.Context) (*apipb.GetServerStatusResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetServerStatusResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetServerStatus(ctx, &apipb.GetServerStatusRequest{})
	})
}

// RemoveNode declares that a machine is gone for good, and returns how many of
// its seats were freed. With force that includes seats it may still use.
func (c *Client) RemoveNode(ctx context.Context, id string, force bool) (int, error) {
	tries := 0
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RemoveNodeResponse, error) {
		tries++
		return apipb.NewClusterServiceClient(conn).RemoveNode(ctx, &apipb.RemoveNodeRequest{NodeId: id, Force: force})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return 0, nil // an earlier try did it, and its answer was lost
	}
	return int(answer.GetSeats()), err
}

// Ready says whether the server may be sent work; nil means yes.
func (c *Client) Ready(ctx context.Context) error {
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetReadyResponse, error) {
		return apipb.NewClusterServiceClient(conn).GetReady(ctx, &apipb.GetReadyRequest{})
	})
	return err
}
