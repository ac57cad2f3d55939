package client

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateJoinToken creates a token with which one machine can join once, as the
// given node. If the argument `node` is "", the machine can join under any new
// node name. If the argument `ttl` is 0, the token is valid for the server's
// default time. If CreateJoinToken's answer is lost, the created token stays
// unused until it expires.
func (c *Client) CreateJoinToken(ctx context.Context, node string, ttl time.Duration) (*apipb.CreateJoinTokenResponse, error) {
	return c.CreateJoinTokenWithGrant(ctx, node, ttl, nil)
}

// CreateJoinTokenWithGrant is like CreateJoinToken, and also says what the joining
// node may be.
func (c *Client) CreateJoinTokenWithGrant(ctx context.Context, node string, ttl time.Duration, grant *apipb.NodeGrant) (*apipb.CreateJoinTokenResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateJoinTokenResponse, error) {
		return apipb.NewTrustServiceClient(conn).CreateJoinToken(ctx, &apipb.CreateJoinTokenRequest{NodeId: node, TtlSeconds: int32(ttl / time.Second), Grant: grant})
	})
}

// LabelNode sets and removes labels of a node, and returns what the node is granted.
func (c *Client) LabelNode(ctx context.Context, node string, set map[string]string, remove []string) (*apipb.NodeGrant, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.LabelNodeResponse, error) {
		return apipb.NewTrustServiceClient(conn).LabelNode(ctx, &apipb.LabelNodeRequest{NodeId: node, Labels: set, Remove: remove})
	})
	return answer.GetGrant(), err
}

// JoinTokens lists the join tokens that have not expired, without their secrets.
func (c *Client) JoinTokens(ctx context.Context) (*apipb.ListJoinTokensResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJoinTokensResponse, error) {
		return apipb.NewTrustServiceClient(conn).ListJoinTokens(ctx, &apipb.ListJoinTokensRequest{})
	})
}

// RevokeJoinToken revokes a join token. Revoking a join token does not affect
// nodes that have already joined with it.
func (c *Client) RevokeJoinToken(ctx context.Context, id string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeJoinTokenResponse, error) {
		tries++
		return apipb.NewTrustServiceClient(conn).RevokeJoinToken(ctx, &apipb.RevokeJoinTokenRequest{Id: id})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try revoked it, and its answer was lost
	}
	return err
}

// RevokeNode revokes every certificate that was issued to a node so far.
func (c *Client) RevokeNode(ctx context.Context, node, reason string) (*apipb.Revocation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeNodeResponse, error) {
		return apipb.NewTrustServiceClient(conn).RevokeNode(ctx, &apipb.RevokeNodeRequest{NodeId: node, Reason: reason})
	})
	return answer.GetRevocation(), err
}

// Revocations lists the nodes whose certificates were revoked.
func (c *Client) Revocations(ctx context.Context) (*apipb.ListRevocationsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListRevocationsResponse, error) {
		return apipb.NewTrustServiceClient(conn).ListRevocations(ctx, &apipb.ListRevocationsRequest{})
	})
}

// Authority returns the certificate of the certificate authority. All other
// certificates are verified with this certificate.
func (c *Client) Authority(ctx context.Context) (*apipb.GetAuthorityResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetAuthorityResponse, error) {
		return apipb.NewTrustServiceClient(conn).GetAuthority(ctx, &apipb.GetAuthorityRequest{})
	})
}
