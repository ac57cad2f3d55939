package client

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// CreateJoinToken makes a token by which one machine may join, once, as the
// node that is named or, with "", as any that is not known yet. A ttl of 0 is
// the server's default. A try whose answer is lost leaves a token that nobody
// has: it expires.
func (c *Client) CreateJoinToken(ctx context.Context, node string, ttl time.Duration) (*apipb.CreateJoinTokenResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CreateJoinTokenResponse, error) {
		return apipb.NewTrustServiceClient(conn).CreateJoinToken(ctx, &apipb.CreateJoinTokenRequest{NodeId: node, TtlSeconds: int32(ttl / time.Second)})
	})
}

// JoinTokens lists the join tokens that have not expired, without their secrets.
func (c *Client) JoinTokens(ctx context.Context) (*apipb.ListJoinTokensResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJoinTokensResponse, error) {
		return apipb.NewTrustServiceClient(conn).ListJoinTokens(ctx, &apipb.ListJoinTokensRequest{})
	})
}

// RevokeJoinToken ends a join token. A node that has joined by it stays.
func (c *Client) RevokeJoinToken(ctx context.Context, id string) error {
	tries := 0
	_, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeJoinTokenResponse, error) {
		tries++
		return apipb.NewTrustServiceClient(conn).RevokeJoinToken(ctx, &apipb.RevokeJoinTokenRequest{Id: id})
	})
	if tries > 1 && ares.CodeOf(err) == ares.NotFound {
		return nil // an earlier try did it, and its answer was lost
	}
	return err
}

// RevokeNode ends every certificate that a node was given so far.
func (c *Client) RevokeNode(ctx context.Context, node, reason string) (*apipb.Revocation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RevokeNodeResponse, error) {
		return apipb.NewTrustServiceClient(conn).RevokeNode(ctx, &apipb.RevokeNodeRequest{NodeId: node, Reason: reason})
	})
	return answer.GetRevocation(), err
}

// Revocations lists the nodes whose certificates were ended.
func (c *Client) Revocations(ctx context.Context) (*apipb.ListRevocationsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListRevocationsResponse, error) {
		return apipb.NewTrustServiceClient(conn).ListRevocations(ctx, &apipb.ListRevocationsRequest{})
	})
}

// Authority tells the certificate that all others are verified by.
func (c *Client) Authority(ctx context.Context) (*apipb.GetAuthorityResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetAuthorityResponse, error) {
		return apipb.NewTrustServiceClient(conn).GetAuthority(ctx, &apipb.GetAuthorityRequest{})
	})
}
