package agent

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// checkpointEvery is the minimum time between two checkpoint reports of one job. Reports are limited because each one is a write
// to the store. The last checkpoint before the job's end is always reported.
const checkpointEvery = 10 * time.Second

// The type `report` holds the checkpoint that was last reported for a seat, and the time of that report.
type report struct {
	checkpoint time.Time
	at         run.BootTime
}

// The method `checkpoint` returns the time of the seat's latest checkpoint. The result `news` is false if that checkpoint was
// already reported. In a gang only rank 0 reports checkpoints, because only rank 0 knows when all ranks have saved their state.
func (s *seat) checkpoint() (at time.Time, news bool) {
	at, ok := s.agent.runner.Checkpointed(s.key) // of each rank, because it also limits the file's size
	if s.key.Rank != 0 {
		return time.Time{}, false
	}
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	return at, ok && !at.Equal(s.told.checkpoint)
}

// reportCheckpoints reports new checkpoints, at most once every checkpointEvery for each job.
func (a *Agent) reportCheckpoints(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) {
	a.mu.Lock()
	var due []*seat
	for _, s := range a.seats {
		if s.proc != nil && s.result == nil && (s.told.at == 0 || run.Now().Sub(s.told.at) >= checkpointEvery) {
			due = append(due, s)
		}
	}
	a.mu.Unlock()
	for _, s := range due {
		if at, news := s.checkpoint(); news {
			if err := s.tellCheckpoint(ctx, c, ref, at); err != nil {
				a.log.Debug("report a checkpoint", "seat", s.key, "error", err) // it is reported again, with the seat's end at the latest
			}
		}
	}
}

// lastCheckpoint reports the last checkpoint before the seat's end, if it is new. The checkpoint counts even if the job
// wrote it after the stop request.
func (s *seat) lastCheckpoint(ctx context.Context) {
	at, news := s.checkpoint()
	if !news {
		return
	}
	var err error
	for again := true; again; {
		session := s.agent.session.Load()
		err = s.callUntilAnswered(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
			return s.tellCheckpoint(ctx, c, ref, at)
		})
		again = ares.CodeOf(err) == ares.Fenced && s.agent.session.Load() != session // a new session was opened during the call
	}
	if err != nil && ctx.Err() == nil {
		s.agent.log.Warn("a checkpoint report was rejected", "seat", s.key, "error", err)
	}
}

func (s *seat) tellCheckpoint(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef, at time.Time) error {
	_, err := c.ReportCheckpoint(ctx, &apipb.ReportCheckpointRequest{
		Ref: ref, Seat: refOf(s.key), AgeMs: max(time.Since(at), 0).Milliseconds(),
	})
	if err == nil {
		s.agent.mu.Lock()
		s.told = report{at, run.Now()}
		s.agent.mu.Unlock()
	}
	return err
}
