package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// ApplyPolicy writes a policy, new or in place of the one of its name, or only
// has it checked.
func (c *Client) ApplyPolicy(ctx context.Context, p *apipb.Policy, checkOnly bool) (*apipb.ApplyPolicyResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ApplyPolicyResponse, error) {
		return apipb.NewPolicyServiceClient(conn).ApplyPolicy(ctx, &apipb.ApplyPolicyRequest{Policy: p, CheckOnly: checkOnly})
	})
}

// Policy reads one policy, of a tenant or, for "", of those for all.
func (c *Client) Policy(ctx context.Context, tenant, name string) (*apipb.Policy, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetPolicyResponse, error) {
		return apipb.NewPolicyServiceClient(conn).GetPolicy(ctx, &apipb.GetPolicyRequest{TenantId: tenant, Name: name})
	})
	return answer.GetPolicy(), err
}

// Policies lists the policies in the order they are asked: those that are about a
// tenant, or all for "".
func (c *Client) Policies(ctx context.Context, tenant string) (*apipb.ListPoliciesResponse, error) {
	all := &apipb.ListPoliciesResponse{}
	for req := (&apipb.ListPoliciesRequest{TenantId: tenant, PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListPoliciesResponse, error) {
			return apipb.NewPolicyServiceClient(conn).ListPolicies(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Policies, all.Total = append(all.Policies, page.GetPolicies()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// DeletePolicy deletes a policy.
func (c *Client) DeletePolicy(ctx context.Context, tenant, name string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeletePolicyResponse, error) {
		tries++
		return apipb.NewPolicyServiceClient(conn).DeletePolicy(ctx, &apipb.DeletePolicyRequest{TenantId: tenant, Name: name})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try did it, and its answer was lost
	}
	return err
}

// AlertChannels lists the ways a server can tell people.
func (c *Client) AlertChannels(ctx context.Context) (*apipb.ListAlertChannelsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListAlertChannelsResponse, error) {
		return apipb.NewPolicyServiceClient(conn).ListAlertChannels(ctx, &apipb.ListAlertChannelsRequest{})
	})
}

// TestAlertChannel sends an alert through a channel.
func (c *Client) TestAlertChannel(ctx context.Context, name string) (*apipb.TestAlertChannelResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.TestAlertChannelResponse, error) {
		return apipb.NewPolicyServiceClient(conn).TestAlertChannel(ctx, &apipb.TestAlertChannelRequest{Name: name})
	})
}
