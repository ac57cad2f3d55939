package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// secretService implements SecretService.
type secretService struct {
	apipb.UnimplementedSecretServiceServer
	*Services
}

// noSecrets is the error of a server that was built without secrets, such as the server of some tests.
func noSecrets() error { return ares.Errorf(ares.Unavailable, "this server does not support secrets") }

// PutSecret implements apipb.SecretServiceServer.
func (d *secretService) PutSecret(ctx context.Context, req *apipb.PutSecretRequest) (*apipb.PutSecretResponse, error) {
	if d.Cfg.Secrets == nil {
		return nil, noSecrets()
	}
	made, replaced, err := d.Cfg.Secrets.Put(ctx, pipeline.CallOf(ctx).Tenant, req.GetName(), req.GetData(), pipeline.CallerName(ctx))
	if err != nil {
		return nil, err
	}
	var was proto.Message
	if replaced != nil {
		was = newSecret(replaced)
	}
	pipeline.AuditChange(ctx, made.Tenant, was, newSecret(&made))
	return &apipb.PutSecretResponse{Secret: newSecret(&made)}, nil
}

// ListSecrets implements apipb.SecretServiceServer.
func (d *secretService) ListSecrets(ctx context.Context, req *apipb.ListSecretsRequest) (*apipb.ListSecretsResponse, error) {
	all, err := d.secretsFor(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	page, next, err := pageByKey(all, req.GetPageSize(), req.GetPageToken(), secretID, newSecret)
	return &apipb.ListSecretsResponse{Secrets: page, Total: int32(len(all)), NextPageToken: next}, err
}

func secretID(x *store.Secret) string { return x.Tenant + "/" + x.Name }

// secretsFor returns the secrets that the caller may see, of one tenant or of all. It reads only the caller's own tenants, so
// that the cost of a call does not depend on the secrets of others.
func (d *secretService) secretsFor(ctx context.Context, tenant string) ([]*store.Secret, error) {
	who := pipeline.IdentityOf(ctx)
	tenants, everything := roles.Tenants(who, roles.SecretRead)
	switch {
	case tenant != "":
		tenants = []string{tenant}
	case everything:
		tenants = []string{""}
	}
	var all []*store.Secret
	for _, t := range tenants {
		list, _, err := d.Cfg.Store.Secrets(ctx, t)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if roles.Allows(who, roles.SecretRead, list[i].Tenant, roles.Any) {
				all = append(all, &list[i])
			}
		}
	}
	slices.SortFunc(all, func(a, b *store.Secret) int { return strings.Compare(secretID(a), secretID(b)) })
	return all, nil
}

// DeleteSecret implements apipb.SecretServiceServer.
func (d *secretService) DeleteSecret(ctx context.Context, req *apipb.DeleteSecretRequest) (*apipb.DeleteSecretResponse, error) {
	tenant := pipeline.CallOf(ctx).Tenant
	was, err := d.Cfg.Store.DeleteSecret(ctx, tenant, req.GetName())
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, tenant, newSecret(&was), nil)
	return &apipb.DeleteSecretResponse{Message: fmt.Sprintf("Secret %s of tenant %s deleted", was.Name, tenant)}, nil
}

// RotateSecretKey implements apipb.SecretServiceServer.
func (d *secretService) RotateSecretKey(ctx context.Context, req *apipb.RotateSecretKeyRequest) (*apipb.RotateSecretKeyResponse, error) {
	if d.Cfg.Secrets == nil {
		return nil, noSecrets()
	}
	done, err := d.Cfg.Secrets.Rotate(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	out := &apipb.RotateSecretKeyResponse{KeyId: done.KeyID, Rewrapped: int32(done.Rewrapped)}
	pipeline.AuditChange(ctx, "", nil, out)
	return out, nil
}

// newSecret converts a secret to its public form, without its value and its ciphertext.
func newSecret(x *store.Secret) *apipb.Secret {
	return &apipb.Secret{
		Name: x.Name, TenantId: x.Tenant, Version: x.Version, Keys: x.Keys, CreatedAt: apipb.Timestamp(x.CreatedAt),
		UpdatedAt: apipb.Timestamp(x.UpdatedAt), UpdatedBy: x.By, KeyId: x.KeyID,
	}
}

// FetchSecrets gives an agent the secrets of a job. Deliver checks that the agent's node has claimed the seat, and that
// session and fence are current.
func (d *AgentService) FetchSecrets(ctx context.Context, req *apipb.FetchSecretsRequest) (*apipb.FetchSecretsResponse, error) {
	if d.Secrets == nil {
		return nil, noSecrets()
	}
	values, err := d.Secrets.Deliver(ctx, seatRef(req.GetSeat(), req.GetRef()), req.GetRef().GetSession())
	if err != nil {
		return nil, err
	}
	out := &apipb.FetchSecretsResponse{}
	for _, v := range values {
		out.Secrets = append(out.Secrets, newSeatSecret(&v))
	}
	return out, nil
}

func newSeatSecret(v *secrets.Value) *apipb.SeatSecret {
	return &apipb.SeatSecret{Env: v.Env, File: v.File, Value: v.Value}
}
