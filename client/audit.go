package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
)

// AuditEntries finds entries of the audit log, page by page, until there are no
// more or each says that it has enough.
func (c *Client) AuditEntries(ctx context.Context, req *apipb.ListAuditEntriesRequest, each func(*apipb.ListAuditEntriesResponse) (more bool, err error)) error {
	for {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListAuditEntriesResponse, error) {
			return apipb.NewAuditServiceClient(conn).ListAuditEntries(ctx, req)
		})
		if err != nil {
			return err
		}
		more, err := each(page)
		if req.PageToken = page.GetNextPageToken(); err != nil || !more || req.PageToken == "" {
			return err
		}
	}
}

// AuditHead has the server in use sign the end of its audit log.
func (c *Client) AuditHead(ctx context.Context) (*apipb.AuditHead, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetAuditHeadResponse, error) {
		return apipb.NewAuditServiceClient(conn).GetAuditHead(ctx, &apipb.GetAuditHeadRequest{})
	})
	return answer.GetHead(), err
}

// VerifyAudit has the server in use read its whole audit log, and hold it against
// heads that were kept elsewhere. That may take longer than other calls: it is
// tried once, for as long as ctx lasts.
func (c *Client) VerifyAudit(ctx context.Context, heads ...*apipb.AuditHead) (*apipb.VerifyAuditResponse, error) {
	answer, err := apipb.NewAuditServiceClient(c.Conn()).VerifyAudit(ctx, &apipb.VerifyAuditRequest{Heads: heads})
	return answer, apipb.FromStatus(err)
}
