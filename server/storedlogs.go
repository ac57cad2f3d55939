package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/objects/logs"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// logsDir begins the keys of the output of ended jobs.
const logsDir = "logs"

// openLogs opens the place for the output of ended jobs. If this is not possible, output can be read only while its node is connected.
func (s *Server) openLogs(ctx context.Context) (stored *logs.Store, why string) {
	switch c := &s.cfg.Objects; {
	case c.LogDays == 0:
		return nil, "this server does not store the output of jobs (objects.log_days is 0)"
	case s.Code.Objects == nil:
		return nil, "this server does not store the output of jobs, because it has no place for objects (objects.url or objects.dir)"
	default:
		stored, err := logs.Open(ctx, logs.Config{
			Place: s.Code.Objects.Place().Sub(logsDir), TenantBytes: int64(c.TenantLogMB) << 20, Keep: time.Duration(c.LogDays) * 24 * time.Hour,
		})
		if err != nil {
			s.log.Error("this server cannot store the output of jobs", "error", err)
			return nil, "this server cannot store the output of jobs: an administrator must make " + c.setting() + " usable: " + err.Error()
		}
		return stored, ""
	}
}

// The leader deletes old output so often.
const (
	collectLogsEvery = time.Hour
	firstCollectLogs = 5 * time.Minute
)

// collectLogs deletes old output of ended jobs until ctx ends. It runs on the leader.
func (s *Server) collectLogs(ctx context.Context, _ *store.Leadership) error {
	for wait := firstCollectLogs; pause.For(ctx, wait); wait = collectLogsEvery {
		if s.logs == nil {
			continue
		}
		done, err := s.logs.Collect(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.log.Warn("delete old output of jobs", "error", err)
		case done.Deleted > 0:
			s.log.Info("deleted old output of jobs", "objects", done.Deleted, "bytes", done.Bytes, "kept", done.Kept)
		}
	}
	return ctx.Err()
}

// watchLogs exports what this server has stored since it started.
func (m *serverMetrics) watchLogs(stored *logs.Store) {
	if stored == nil {
		return
	}
	for _, c := range []struct {
		name, help string
		value      func(logs.Counts) int64
	}{
		{"ares_stored_logs_total", "Ended ranks, or parts of their output, that this server has stored.", func(c logs.Counts) int64 { return c.Ranks }},
		{"ares_stored_log_bytes_total", "Bytes of output that this server has stored, after compression.", func(c logs.Counts) int64 { return c.Bytes }},
		{"ares_stored_log_packs_total", "Objects with output that this server has stored.", func(c logs.Counts) int64 { return c.Packs }},
		{"ares_stored_log_errors_total", "Attempts to store output that failed. The nodes repeat them.", func(c logs.Counts) int64 { return c.Failed }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help}, func() float64 {
			return float64(c.value(stored.Counts()))
		}))
	}
}
