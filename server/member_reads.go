package server

import (
	"context"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// answerHub answers a read of the hub about a granted job. Output may be on a node that is connected to another server of this
// cluster: that server is asked with this server's own token, because the hub's user has none here.
func (s *Server) answerHub(ctx context.Context, q *apipb.OwnerRead, job store.Snapshot, send func(*apipb.ReadAnswer) error) error {
	if err := s.awaitAPI(ctx); err != nil {
		return err
	}
	attempt := 0
	if q.GetKind() == apipb.OwnerRead_KIND_LOGS {
		for i := range job.Run.Attempts {
			if a := &job.Run.Attempts[i]; int64(a.Fence) == q.GetFence() {
				attempt = a.Number
			}
		}
		if attempt == 0 {
			return ares.Errorf(ares.NotFound, "the cluster has no record of this attempt of job %s any more", job.Job.ID)
		}
	}
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+s.ownToken))
	granted := func(ctx context.Context) error {
		_, err := s.Uplink.GrantedJob(ctx, job.Job.Origin.Hub, q)
		return err
	}
	return s.doors.AnswerHub(ctx, q, attempt, granted, send)
}

// archivedJob returns a job from history.
func (s *Server) archivedJob(ctx context.Context, id ares.JobID) (store.Snapshot, error) {
	if err := s.awaitAPI(ctx); err != nil {
		return store.Snapshot{}, err
	}
	return s.doors.ArchivedJob(ctx, id)
}

// awaitAPI waits until the API of a starting server is complete. The uplink may run before.
func (s *Server) awaitAPI(ctx context.Context) error {
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
