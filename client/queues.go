package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateQueue creates a queue.
func (c *Client) CreateQueue(ctx context.Context, q *apipb.Queue) (*apipb.Queue, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).CreateQueue(ctx, &apipb.CreateQueueRequest{Queue: q})
	})
	return answer.GetQueue(), err
}

// Queue reads one queue, with the current usage of its jobs.
func (c *Client) Queue(ctx context.Context, tenant, name string) (*apipb.Queue, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).GetQueue(ctx, &apipb.GetQueueRequest{TenantId: tenant, Name: name})
	})
	return answer.GetQueue(), err
}

// Queues lists the queues of a tenant, page by page. If the argument `tenant` is "", Queues lists
// the queues of all tenants.
func (c *Client) Queues(ctx context.Context, tenant string) (*apipb.ListQueuesResponse, error) {
	all := &apipb.ListQueuesResponse{}
	for req := (&apipb.ListQueuesRequest{TenantId: tenant, PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListQueuesResponse, error) {
			return apipb.NewQueueServiceClient(conn).ListQueues(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Queues, all.Total = append(all.Queues, page.GetQueues()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// UpdateQueue changes the fields of a queue that are set in q, and leaves all other fields
// unchanged. q must contain the queue's name. If q has quotas, they replace all old quotas of the
// queue. If clearQuotas is true, UpdateQueue removes all quotas.
func (c *Client) UpdateQueue(ctx context.Context, q *apipb.Queue, clearQuotas bool) (*apipb.Queue, error) {
	req := &apipb.UpdateQueueRequest{TenantId: q.GetTenantId(), Name: q.GetName(), Queue: q, ClearQuotas: clearQuotas}
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UpdateQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).UpdateQueue(ctx, req)
	})
	return answer.GetQueue(), err
}

// DeleteQueue deletes a queue without live jobs and without child queues.
func (c *Client) DeleteQueue(ctx context.Context, tenant, name string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteQueueResponse, error) {
		tries++
		return apipb.NewQueueServiceClient(conn).DeleteQueue(ctx, &apipb.DeleteQueueRequest{TenantId: tenant, Name: name})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}

// Fairness returns the fair shares of one tenant. If the argument `tenant` is "", Fairness returns
// the fair shares of all tenants.
func (c *Client) Fairness(ctx context.Context, tenant string) (*apipb.GetFairnessResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetFairnessResponse, error) {
		return apipb.NewQueueServiceClient(conn).GetFairness(ctx, &apipb.GetFairnessRequest{TenantId: tenant})
	})
}

// Topology reads the cluster's topology.
func (c *Client) Topology(ctx context.Context) (*apipb.Topology, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetTopologyResponse, error) {
		return apipb.NewTopologyServiceClient(conn).GetTopology(ctx, &apipb.GetTopologyRequest{})
	})
	return answer.GetTopology(), err
}

// ApplyTopology replaces the whole topology. The answer has a warning for each node in t that the
// server does not know. If t has a revision, ApplyTopology fails unless the current topology still
// has that revision.
func (c *Client) ApplyTopology(ctx context.Context, t *apipb.Topology) (*apipb.ApplyTopologyResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ApplyTopologyResponse, error) {
		return apipb.NewTopologyServiceClient(conn).ApplyTopology(ctx, &apipb.ApplyTopologyRequest{Topology: t})
	})
}
