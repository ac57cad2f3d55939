package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
)

// AuditEntries reads the audit log page by page and calls the function `each` for every entry.
// It stops when there are no more entries or when `each` returns false.
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

// AuditHead asks the connected server to sign the last entry of its audit log.
func (c *Client) AuditHead(ctx context.Context) (*apipb.AuditHead, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetAuditHeadResponse, error) {
		return apipb.NewAuditServiceClient(conn).GetAuditHead(ctx, &apipb.GetAuditHeadRequest{})
	})
	return answer.GetHead(), err
}

// VerifyAudit asks the connected server to read its whole audit log, and to compare the log with
// signed heads that were stored elsewhere. VerifyAudit may take longer than other calls, so it is
// tried only once and only ctx limits its time.
func (c *Client) VerifyAudit(ctx context.Context, heads ...*apipb.AuditHead) (*apipb.VerifyAuditResponse, error) {
	answer, err := apipb.NewAuditServiceClient(c.Conn()).VerifyAudit(ctx, &apipb.VerifyAuditRequest{Heads: heads})
	return answer, apipb.FromStatus(err)
}

// VerifyAuditEnd asks the connected server to compare only the end of its audit log with the store and history. This takes less
// time than VerifyAudit for a long log.
func (c *Client) VerifyAuditEnd(ctx context.Context) (*apipb.VerifyAuditResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.VerifyAuditResponse, error) {
		return apipb.NewAuditServiceClient(conn).VerifyAudit(ctx, &apipb.VerifyAuditRequest{EndOnly: true})
	})
}
