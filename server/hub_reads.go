package server

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation"
)

// hubReads asks the clusters that own jobs of the hub. It implements service.Owners.
type hubReads struct{ *federation.Hub }

// OwnerRun implements service.Owners.
func (h hubReads) OwnerRun(ctx context.Context, id ares.JobID, who service.Reader) (*ares.Run, *ares.Progress, error) {
	return h.Hub.OwnerRun(ctx, id, federation.Reader(who))
}

// OwnerLogs implements service.Owners.
func (h hubReads) OwnerLogs(ctx context.Context, run *ares.Run, a *ares.Attempt, req *apipb.StreamLogsRequest, who service.Reader, send func(*apipb.StreamLogsResponse) error) error {
	return h.Hub.OwnerLogs(ctx, run, a, req, federation.Reader(who), send)
}

// OwnerExplanation implements service.Owners.
func (h hubReads) OwnerExplanation(ctx context.Context, id ares.JobID, who service.Reader) (*apipb.Explanation, error) {
	return h.Hub.OwnerExplanation(ctx, id, federation.Reader(who))
}
