package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// WhoAmI tells who this client is to the server, and what it is bound to.
func (c *Client) WhoAmI(ctx context.Context) (*apipb.WhoAmIResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.WhoAmIResponse, error) {
		return apipb.NewIdentityServiceClient(conn).WhoAmI(ctx, &apipb.WhoAmIRequest{})
	})
}

// CanI tells whether this client may do something, such as job.submit.
func (c *Client) CanI(ctx context.Context, req *apipb.CanIRequest) (*apipb.CanIResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CanIResponse, error) {
		return apipb.NewIdentityServiceClient(conn).CanI(ctx, req)
	})
}

// CreateToken makes a service token. The answer is the only place where it is
// told. It is not tried again when the answer is lost: the token would be too.
func (c *Client) CreateToken(ctx context.Context, req *apipb.CreateTokenRequest) (*apipb.CreateTokenResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	made, err := apipb.NewIdentityServiceClient(c.Conn()).CreateToken(ctx, req)
	return made, apipb.FromStatus(err)
}

// Tokens lists the tokens of a tenant, or all that this client may see for "".
func (c *Client) Tokens(ctx context.Context, tenant string) (*apipb.ListTokensResponse, error) {
	all := &apipb.ListTokensResponse{}
	for req := (&apipb.ListTokensRequest{TenantId: tenant, PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListTokensResponse, error) {
			return apipb.NewIdentityServiceClient(conn).ListTokens(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Tokens, all.Total = append(all.Tokens, page.GetTokens()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// RevokeToken ends a token, of a tenant or of the platform for "".
func (c *Client) RevokeToken(ctx context.Context, tenant, name string) error {
	return once(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeTokenResponse, error) {
		return apipb.NewIdentityServiceClient(conn).RevokeToken(ctx, &apipb.RevokeTokenRequest{TenantId: tenant, Name: name})
	})
}

// CreateBinding gives somebody a role.
func (c *Client) CreateBinding(ctx context.Context, b *apipb.Binding) (*apipb.Binding, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateBindingResponse, error) {
		return apipb.NewIdentityServiceClient(conn).CreateBinding(ctx, &apipb.CreateBindingRequest{Binding: b})
	})
	return answer.GetBinding(), err
}

// Bindings lists those of a tenant and a subject, of all that this client may see
// for "".
func (c *Client) Bindings(ctx context.Context, tenant, subject string) (*apipb.ListBindingsResponse, error) {
	all := &apipb.ListBindingsResponse{}
	for req := (&apipb.ListBindingsRequest{TenantId: tenant, Subject: subject, PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListBindingsResponse, error) {
			return apipb.NewIdentityServiceClient(conn).ListBindings(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Bindings, all.Total = append(all.Bindings, page.GetBindings()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// DeleteBinding takes a role away.
func (c *Client) DeleteBinding(ctx context.Context, b *apipb.Binding) error {
	return once(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteBindingResponse, error) {
		return apipb.NewIdentityServiceClient(conn).DeleteBinding(ctx, &apipb.DeleteBindingRequest{
			Subject: b.GetSubject(), Role: b.GetRole(), TenantId: b.GetTenantId(), Queue: b.GetQueue(),
		})
	})
}

// once calls what removes something: what is not there at a second try, the
// first one removed, and its answer was lost.
func once[T any](ctx context.Context, c *Client, call func(context.Context, *grpc.ClientConn) (T, error)) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (T, error) {
		tries++
		return call(ctx, conn)
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil
	}
	return err
}
