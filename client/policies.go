package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// ApplyPolicy creates or replaces a policy. If checkOnly is true, ApplyPolicy only
// checks the policy and does not store it.
func (c *Client) ApplyPolicy(ctx context.Context, p *apipb.Policy, checkOnly bool) (*apipb.ApplyPolicyResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ApplyPolicyResponse, error) {
		return apipb.NewPolicyServiceClient(conn).ApplyPolicy(ctx, &apipb.ApplyPolicyRequest{Policy: p, CheckOnly: checkOnly})
	})
}

// Policy reads one policy of a tenant. If the argument `tenant` is "", Policy reads a
// global policy.
func (c *Client) Policy(ctx context.Context, tenant, name string) (*apipb.Policy, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetPolicyResponse, error) {
		return apipb.NewPolicyServiceClient(conn).GetPolicy(ctx, &apipb.GetPolicyRequest{TenantId: tenant, Name: name})
	})
	return answer.GetPolicy(), err
}

// Policies lists the policies that apply to a tenant, in the order of evaluation. If
// the argument `tenant` is "", Policies lists all policies.
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
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}

// AlertChannels lists the alert channels of a server.
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
