package agent

import (
	"context"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// checkpointEvery is the least time between two reports that one job has saved
// its progress: each is a write to the store. The last before its end is always
// reported.
const checkpointEvery = 10 * time.Second

// report is the checkpoint a seat was last reported with, and when.
type report struct {
	checkpoint time.Time
	at         run.BootTime
}

// checkpoint is the seat's latest that was not told yet. In a gang rank 0 speaks
// for all: it knows when the whole is saved.
func (s *seat) checkpoint() (at time.Time, news bool) {
	if s.key.Rank != 0 {
		return at, false
	}
	at, ok := s.agent.runner.Checkpointed(s.key)
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	return at, ok && !at.Equal(s.told.checkpoint)
}

// reportCheckpoints tells of jobs that saved their progress, each no more often
// than checkpointEvery.
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
				a.log.Debug("report a checkpoint", "seat", s.key, "error", err) // told again, at the latest with its end
			}
		}
	}
}

// lastCheckpoint tells of the one before the seat's end, if that was not told.
// It counts, even when it was made after the job was asked to stop.
func (s *seat) lastCheckpoint(ctx context.Context) {
	at, news := s.checkpoint()
	if !news {
		return
	}
	err := s.until(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		return s.tellCheckpoint(ctx, c, ref, at)
	})
	if err != nil && ctx.Err() == nil {
		s.agent.log.Warn("a checkpoint was refused", "seat", s.key, "error", err)
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
