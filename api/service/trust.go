package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// These are the default and the minimum lifetime of a join token.
const (
	defaultJoinLife = time.Hour
	minJoinLife     = time.Minute
)

type trustService struct {
	apipb.UnimplementedTrustServiceServer
	*Services
	*pipeline.Trust
}

// CreateJoinToken implements apipb.TrustServiceServer.
func (d *trustService) CreateJoinToken(ctx context.Context, req *apipb.CreateJoinTokenRequest) (*apipb.CreateJoinTokenResponse, error) {
	if d.Hub {
		return nil, pipeline.ErrHub()
	}
	node := req.GetNodeId()
	if node != "" && !ares.ValidName(node) {
		return nil, ares.Errorf(ares.Invalid, "%q is not a valid node name: use up to 63 letters, digits, '.', '-' and '_'", ares.Clip(node)).At("node_id")
	}
	life := cmp.Or(time.Duration(req.GetTtlSeconds())*time.Second, defaultJoinLife)
	if life < minJoinLife {
		return nil, ares.Errorf(ares.Invalid, "ttl_seconds: must be %d or more, got %d", int(minJoinLife.Seconds()), req.GetTtlSeconds()).At("ttl_seconds")
	}
	grant := req.GetGrant().Grant()
	if err := grant.Check("grant"); err != nil {
		return nil, err
	}
	token := pki.NewJoinToken(d.Authority.Hash())
	now := pipeline.WholeMicros(d.Now())
	rec := store.JoinToken{ID: token.ID, Hash: token.Hash(), Node: node, By: pipeline.CallerName(ctx), CreatedAt: now, ExpiresAt: now.Add(life), Grant: grant}
	if err := d.Trust.Store.CreateJoinToken(ctx, rec); err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", nil, rec)
	return &apipb.CreateJoinTokenResponse{Token: token.String(), JoinToken: joinToken(&rec)}, nil
}

// ListJoinTokens implements apipb.TrustServiceServer.
func (d *trustService) ListJoinTokens(ctx context.Context, _ *apipb.ListJoinTokensRequest) (*apipb.ListJoinTokensResponse, error) {
	list, err := d.Trust.Store.JoinTokens(ctx, d.Now())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b store.JoinToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
	out := &apipb.ListJoinTokensResponse{}
	for i := range list {
		out.JoinTokens = append(out.JoinTokens, joinToken(&list[i]))
	}
	return out, nil
}

func joinToken(t *store.JoinToken) *apipb.JoinToken {
	return &apipb.JoinToken{
		Id: t.ID, NodeId: t.Node, CreatedBy: t.By, CreatedAt: apipb.Timestamp(t.CreatedAt), ExpiresAt: apipb.Timestamp(t.ExpiresAt),
		UsedAt: apipb.Timestamp(t.UsedAt), UsedBy: t.UsedBy, Grant: apipb.NewNodeGrant(t.Grant),
	}
}

// RevokeJoinToken implements apipb.TrustServiceServer.
func (d *trustService) RevokeJoinToken(ctx context.Context, req *apipb.RevokeJoinTokenRequest) (*apipb.RevokeJoinTokenResponse, error) {
	id := req.GetId()
	if !ares.ValidName(id) {
		return nil, ares.Errorf(ares.NotFound, "there is no join token %q: list the join tokens with `ares node token list`", ares.Clip(id)).At("id")
	}
	was, err := d.Trust.Store.DeleteJoinToken(ctx, id)
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", was, nil)
	return &apipb.RevokeJoinTokenResponse{Message: "Join token " + id + " revoked"}, nil
}

// RevokeNode implements apipb.TrustServiceServer. RevokeNode accepts unknown
// nodes too, because a node may have a certificate before it first connects.
func (d *trustService) RevokeNode(ctx context.Context, req *apipb.RevokeNodeRequest) (*apipb.RevokeNodeResponse, error) {
	if !ares.ValidName(req.GetNodeId()) {
		return nil, noNode(req.GetNodeId())
	}
	r, err := d.Revoke(ctx, req.GetNodeId(), req.GetReason())
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", nil, r)
	d.WaitForView(ctx, r.Revision)
	return &apipb.RevokeNodeResponse{Revocation: revocation(&r)}, nil
}

// LabelNode implements apipb.TrustServiceServer. LabelNode accepts nodes that have joined but never
// connected.
func (d *trustService) LabelNode(ctx context.Context, req *apipb.LabelNodeRequest) (*apipb.LabelNodeResponse, error) {
	if !ares.ValidName(req.GetNodeId()) {
		return nil, noNode(req.GetNodeId())
	}
	c, err := d.Trust.Store.LabelNode(ctx, req.GetNodeId(), req.GetLabels(), req.GetRemove())
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", grantOrNil(c.Before), grantOrNil(c.After))
	d.WaitForView(ctx, c.Revision)
	return &apipb.LabelNodeResponse{Grant: apipb.NewNodeGrant(c.After)}, nil
}

// grantOrNil returns nil for a grant that says nothing, which the audit log shows as no object.
func grantOrNil(g ares.NodeGrant) any {
	if g.IsZero() {
		return nil
	}
	return g
}

// ListRevocations implements apipb.TrustServiceServer.
func (d *trustService) ListRevocations(ctx context.Context, _ *apipb.ListRevocationsRequest) (*apipb.ListRevocationsResponse, error) {
	list, err := d.Trust.Store.Revocations(ctx)
	if err != nil {
		return nil, err
	}
	out := &apipb.ListRevocationsResponse{}
	for i := range list {
		out.Revocations = append(out.Revocations, revocation(&list[i]))
	}
	return out, nil
}

func revocation(r *store.Revocation) *apipb.Revocation {
	return &apipb.Revocation{NodeId: r.Node, RevokedBy: r.By, RevokedAt: apipb.Timestamp(r.At), Reason: r.Reason}
}

// GetAuthority implements apipb.TrustServiceServer.
func (d *trustService) GetAuthority(context.Context, *apipb.GetAuthorityRequest) (*apipb.GetAuthorityResponse, error) {
	out := &apipb.GetAuthorityResponse{
		Certificate: string(d.Authority.PEM()), Hash: d.Authority.Hash(),
		ExpiresAt: timestamppb.New(d.Authority.Certificate.NotAfter), ServerCertificateGiven: d.Given,
	}
	if d.Serving != nil {
		out.ServerExpiresAt = timestamppb.New(d.Serving.Ends())
	}
	return out, nil
}

// JoinNode implements apipb.TrustServiceServer. The join token is the caller's
// only credential.
func (d *trustService) JoinNode(ctx context.Context, req *apipb.JoinNodeRequest) (*apipb.JoinNodeResponse, error) {
	if d.Hub {
		return nil, pipeline.ErrHub()
	}
	token, err := pki.ParseJoinToken(req.GetToken())
	if err != nil {
		return nil, err
	}
	node := req.GetNodeId()
	if !ares.ValidName(node) {
		return nil, ares.Errorf(ares.Invalid, "%q is not a valid node name: use up to 63 letters, digits, '.', '-' and '_'", ares.Clip(node)).At("node_id")
	}
	key, err := pki.KeyOf(req.GetRequest())
	if err != nil {
		return nil, err
	}
	print, err := pki.Fingerprint(key)
	if err != nil {
		return nil, err
	}
	now := d.Now()
	revision, err := d.Trust.Store.UseJoinToken(ctx, token.ID, token.Hash(), node, print, now)
	if err != nil {
		return nil, err
	}
	cert, err := d.Authority.IssueNode(req.GetRequest(), node, revision, now, d.NodeLife)
	if err != nil {
		return nil, err
	}
	d.Cfg.Log.Info("node joined", "node", node, "join_token", token.ID)
	pipeline.CallOf(ctx).Entry.After = audit.Digest(cert)
	return &apipb.JoinNodeResponse{Certificate: cert, Authority: d.Authority.Certificate.Raw}, nil
}

// RenewCertificate implements apipb.TrustServiceServer.
func (d *trustService) RenewCertificate(ctx context.Context, req *apipb.RenewCertificateRequest) (*apipb.RenewCertificateResponse, error) {
	leaf := pipeline.ClientCertificate(ctx)
	if leaf == nil || pipeline.IdentityOf(ctx).Kind != ares.ByCert {
		return nil, ares.Errorf(ares.CertificateRequired, "only a node with a certificate can renew it: join the cluster first, with a token from `ares node token create`")
	}
	node, revision, err := pki.NodeOf(leaf)
	if err != nil {
		return nil, err
	}
	if revision, err = d.Trust.Store.Certifiable(ctx, node, revision); err != nil {
		return nil, err
	}
	cert, err := d.Authority.IssueNode(req.GetRequest(), node, revision, d.Now(), d.NodeLife)
	if err != nil {
		return nil, err
	}
	r := &pipeline.CallOf(ctx).Entry
	r.Object, r.Before, r.After = "node/"+node, audit.Digest(leaf.Raw), audit.Digest(cert)
	return &apipb.RenewCertificateResponse{Certificate: cert, Authority: d.Authority.Certificate.Raw}, nil
}
