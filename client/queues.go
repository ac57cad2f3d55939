package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateQueue makes a queue.
func (c *Client) CreateQueue(ctx context.Context, q *apipb.Queue) (*apipb.Queue, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).CreateQueue(ctx, &apipb.CreateQueueRequest{Queue: q})
	})
	return answer.GetQueue(), err
}

// Queue reads one queue, with what the jobs in it hold now.
func (c *Client) Queue(ctx context.Context, tenant, name string) (*apipb.Queue, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).GetQueue(ctx, &apipb.GetQueueRequest{TenantId: tenant, Name: name})
	})
	return answer.GetQueue(), err
}

// Queues lists the queues of a tenant, or of all for "", page by page.
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

// UpdateQueue changes the fields that are set in q, which names the queue, and
// keeps the others. Its quotas, if there are any, replace those before; with
// clearQuotas none are left.
func (c *Client) UpdateQueue(ctx context.Context, q *apipb.Queue, clearQuotas bool) (*apipb.Queue, error) {
	req := &apipb.UpdateQueueRequest{TenantId: q.GetTenantId(), Name: q.GetName(), Queue: q, ClearQuotas: clearQuotas}
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UpdateQueueResponse, error) {
		return apipb.NewQueueServiceClient(conn).UpdateQueue(ctx, req)
	})
	return answer.GetQueue(), err
}

// DeleteQueue removes a queue without live jobs and without queues under it.
func (c *Client) DeleteQueue(ctx context.Context, tenant, name string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteQueueResponse, error) {
		tries++
		return apipb.NewQueueServiceClient(conn).DeleteQueue(ctx, &apipb.DeleteQueueRequest{TenantId: tenant, Name: name})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try did it, and its answer was lost
	}
	return err
}

// Fairness tells who holds how much of the fleet, of one tenant or of all for
// "".
func (c *Client) Fairness(ctx context.Context, tenant string) (*apipb.GetFairnessResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetFairnessResponse, error) {
		return apipb.NewQueueServiceClient(conn).GetFairness(ctx, &apipb.GetFairnessRequest{TenantId: tenant})
	})
}

// Topology reads the fleet's topology.
func (c *Client) Topology(ctx context.Context) (*apipb.Topology, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetTopologyResponse, error) {
		return apipb.NewTopologyServiceClient(conn).GetTopology(ctx, &apipb.GetTopologyRequest{})
	})
	return answer.GetTopology(), err
}

// ApplyTopology replaces the whole topology, and tells what it names that is
// not known. With a revision only that one is replaced.
func (c *Client) ApplyTopology(ctx context.Context, t *apipb.Topology) (*apipb.ApplyTopologyResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ApplyTopologyResponse, error) {
		return apipb.NewTopologyServiceClient(conn).ApplyTopology(ctx, &apipb.ApplyTopologyRequest{Topology: t})
	})
}
