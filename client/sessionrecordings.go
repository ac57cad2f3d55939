package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares/apipb"
)

// SessionRecordings passes the recordings of sessions to a function, page by page, the newest first, until it wants no more.
func (c *Client) SessionRecordings(ctx context.Context, req *apipb.ListSessionRecordingsRequest, each func([]*apipb.SessionRecording) (more bool)) error {
	for {
		page, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListSessionRecordingsResponse, error) {
			return apipb.NewSessionRecordingServiceClient(conn).ListSessionRecordings(ctx, req)
		})
		if err != nil {
			return err
		}
		if req.PageToken = page.GetNextPageToken(); !each(page.GetRecordings()) || req.PageToken == "" {
			return nil
		}
	}
}

// SessionRecording writes a recording as an asciicast. The tenant may be "".
func (c *Client) SessionRecording(ctx context.Context, tenant, id string, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := apipb.NewSessionRecordingServiceClient(c.Conn()).GetSessionRecording(ctx, &apipb.GetSessionRecordingRequest{TenantId: tenant, RecordingId: id})
	if err != nil {
		return apipb.FromStatus(err)
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return apipb.FromStatus(err)
		}
		if _, err = w.Write(part.GetData()); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
}
