package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// WhoAmI returns this client's identity and its role bindings.
func (c *Client) WhoAmI(ctx context.Context) (*apipb.WhoAmIResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.WhoAmIResponse, error) {
		return apipb.NewIdentityServiceClient(conn).WhoAmI(ctx, &apipb.WhoAmIRequest{})
	})
}

// CanI reports whether this client has a permission, such as job.submit.
func (c *Client) CanI(ctx context.Context, req *apipb.CanIRequest) (*apipb.CanIResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CanIResponse, error) {
		return apipb.NewIdentityServiceClient(conn).CanI(ctx, req)
	})
}

// CreateToken creates a service token. The token itself appears only in
// CreateToken's answer. CreateToken is not retried if the answer is lost,
// because the token that the first try created could not be recovered.
func (c *Client) CreateToken(ctx context.Context, req *apipb.CreateTokenRequest) (*apipb.CreateTokenResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	made, err := apipb.NewIdentityServiceClient(c.Conn()).CreateToken(ctx, req)
	return made, apipb.FromStatus(err)
}

// Tokens lists the tokens of a tenant. If the argument `tenant` is "", Tokens
// lists all tokens that this client may see.
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

// RevokeToken revokes a token of a tenant. If the argument `tenant` is "",
// RevokeToken revokes a token of the platform.
func (c *Client) RevokeToken(ctx context.Context, tenant, name string) error {
	return once(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeTokenResponse, error) {
		return apipb.NewIdentityServiceClient(conn).RevokeToken(ctx, &apipb.RevokeTokenRequest{TenantId: tenant, Name: name})
	})
}

// CreateBinding binds a subject to a role.
func (c *Client) CreateBinding(ctx context.Context, b *apipb.Binding) (*apipb.Binding, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateBindingResponse, error) {
		return apipb.NewIdentityServiceClient(conn).CreateBinding(ctx, &apipb.CreateBindingRequest{Binding: b})
	})
	return answer.GetBinding(), err
}

// Bindings lists the bindings of a tenant and a subject. An empty tenant or
// subject matches all bindings that this client may see.
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

// AcceptBinding lets a pending binding take effect.
func (c *Client) AcceptBinding(ctx context.Context, b *apipb.Binding) (*apipb.Binding, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.AcceptBindingResponse, error) {
		return apipb.NewIdentityServiceClient(conn).AcceptBinding(ctx, &apipb.AcceptBindingRequest{
			Subject: b.GetSubject(), Role: b.GetRole(), TenantId: b.GetTenantId(), Queue: b.GetQueue(),
		})
	})
	return answer.GetBinding(), err
}

// DeleteBinding deletes a binding.
func (c *Client) DeleteBinding(ctx context.Context, b *apipb.Binding) error {
	return once(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteBindingResponse, error) {
		return apipb.NewIdentityServiceClient(conn).DeleteBinding(ctx, &apipb.DeleteBindingRequest{
			Subject: b.GetSubject(), Role: b.GetRole(), TenantId: b.GetTenantId(), Queue: b.GetQueue(),
		})
	})
}

// The function `once` makes a call that deletes an object. If a second try
// returns NotFound, the call counts as successful. The first try must have
// deleted the object, and only its answer was lost.
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
