package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Resolve finds the job that a reference means, such as the beginning of a job ID, a job's name or @last. The answer has
// several matches instead of a job if the server cannot tell which job is meant. A server of an earlier version knows
// only IDs, so Resolve then returns the reference itself.
func (c *Client) Resolve(ctx context.Context, req *apipb.ResolveJobRequest) (*apipb.ResolveJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ResolveJobResponse, error) {
		answer, err := apipb.NewJobServiceClient(conn).ResolveJob(ctx, req)
		if status.Code(err) == codes.Unimplemented {
			return &apipb.ResolveJobResponse{JobId: literal(req.GetReference())}, nil
		}
		return answer, err
	})
}

// The function `literal` returns the job ID in a reference that consists of an ID, or of an ID and the index of an array
// element. It returns any other reference unchanged.
func literal(reference string) string {
	if array, index, ok := ares.CutElement(reference); ok && ares.ValidJobID(array) {
		return string(ares.ElementID(ares.JobID(array), index))
	}
	return reference
}
