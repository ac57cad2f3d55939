package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// PutSecret creates a secret, or replaces its values with a new version.
func (c *Client) PutSecret(ctx context.Context, tenant, name string, data map[string][]byte) (*apipb.Secret, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PutSecretResponse, error) {
		return apipb.NewSecretServiceClient(conn).PutSecret(ctx, &apipb.PutSecretRequest{TenantId: tenant, Name: name, Data: data})
	})
	return answer.GetSecret(), err
}

// Secrets lists the secrets of a tenant, without their values. If the argument `tenant` is "", Secrets lists all secrets
// that the caller may use.
func (c *Client) Secrets(ctx context.Context, tenant string) (*apipb.ListSecretsResponse, error) {
	all := &apipb.ListSecretsResponse{}
	for req := (&apipb.ListSecretsRequest{TenantId: tenant, PageSize: pageSize}); ; {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListSecretsResponse, error) {
			return apipb.NewSecretServiceClient(conn).ListSecrets(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		all.Secrets, all.Total = append(all.Secrets, page.GetSecrets()...), page.GetTotal()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

// DeleteSecret deletes a secret.
func (c *Client) DeleteSecret(ctx context.Context, tenant, name string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.DeleteSecretResponse, error) {
		tries++
		return apipb.NewSecretServiceClient(conn).DeleteSecret(ctx, &apipb.DeleteSecretRequest{TenantId: tenant, Name: name})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try deleted it, and its answer was lost
	}
	return err
}

// RotateSecretKey makes another key current and wraps the data keys of all secrets with it. If the argument `keyID` is "",
// the server creates a key. RotateSecretKey is not repeated, because each repetition would create a key.
func (c *Client) RotateSecretKey(ctx context.Context, keyID string) (*apipb.RotateSecretKeyResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	answer, err := apipb.NewSecretServiceClient(c.conns[c.current.Load()]).RotateSecretKey(ctx, &apipb.RotateSecretKeyRequest{KeyId: keyID})
	return answer, apipb.FromStatus(err)
}
